"""Runs the tasks of a job: one after the other in this process, or spread over Spark.

Functions and tasks are picklable module-level values. Results come in the order of the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.pyspark_process import spare_process

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")

_TASKS_PER_CORE = 4


class Spread(Protocol):
    """Runs a function over tasks."""

    def __call__(
        self, function: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]
    ) -> list[ResultT]:
        """Return the results, in the order of the tasks."""
        ...


class InProcess:
    """Runs one task after the other; `progress` gets the numbers of done and of all tasks."""

    def __init__(self, progress: Callable[[int, int], None] = lambda _done, _of: None) -> None:
        self._progress = progress

    def __call__(
        self, function: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]
    ) -> list[ResultT]:
        results = []
        for done, task in enumerate(tasks):
            self._progress(done, len(tasks))
            results.append(function(task))
        return results


def _done(
    function: Callable[[TaskT], ResultT], part: tuple[int, list[TaskT]]
) -> tuple[int, list[ResultT]]:
    """Do one worker's share of the tasks, in its process."""
    spare_process()
    return part[0], [function(task) for task in part[1]]


class OverSpark:
    """Spreads tasks over a few Spark tasks per core, dealt out in turn, the largest first. `spark`
    is a SparkSession. Raises PipelineError if a task fails.
    """

    def __init__(self, spark: Any) -> None:
        self._context = spark.sparkContext

    def __call__(
        self, function: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]
    ) -> list[ResultT]:
        if not tasks:
            return []
        from py4j.protocol import Py4JJavaError

        hands = min(len(tasks), _TASKS_PER_CORE * self._context.defaultParallelism)
        dealt = [(hand, list(tasks[hand::hands])) for hand in range(hands)]
        rows = self._context.parallelize(dealt, hands)
        try:
            found = rows.map(partial(_done, function)).collect()
        except Py4JJavaError as error:
            lines = str(error.java_exception).splitlines()
            causes = [line for line in lines if "Error" in line or "Exception" in line]
            raise PipelineError(
                f"a Spark task failed: {' '.join(causes[-1:])[:300]} "
                "(every worker needs kbroker[spark], and sees the directories by the same paths)"
            ) from error
        by_hand = dict(found)
        return [by_hand[number % hands][number // hands] for number in range(len(tasks))]
