"""Runs the tasks of a restore: progress, the way to stop them, and what they wrote."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.task_board import TaskBoard
from kbroker.pipeline.restoring.task_result import TaskResult
from kbroker.pipeline.spark_job.batch import Ending, JobProgress, JobReport
from kbroker.pipeline.spark_job.job_events import JobEvents, StoppableJob, polled_progress
from kbroker.pipeline.spark_job.job_session import task_workers
from kbroker.pipeline.spark_job.offsets import Ranges
from kbroker.pipeline.spark_job.session import uses_spark
from kbroker.pipeline.spark_job.spread import Spread

TaskT = TypeVar("TaskT")


class RestoreTasks(StoppableJob):
    """The tasks of one run."""

    def __init__(self, board: TaskBoard, rows: int, piece: str) -> None:
        """Expect at most so many rows; a run that is stopped ends after a `piece`."""
        self.board, self._rows, self._piece = board, rows, piece
        self._seconds = 0.0
        self.results: Sequence[TaskResult] = ()

    @property
    def is_complete(self) -> bool:
        """Whether everything is written."""
        return all(result.is_complete for result in self.results)

    def run(
        self,
        spark: Any,
        size_bytes: int,
        events: JobEvents,
        function: Callable[[TaskT], TaskResult],
        tasks: Callable[[int], Sequence[TaskT]],
    ) -> None:
        """Do the `tasks`, which are made for so many at once. Raises PipelineError."""
        self.board.clear()
        begun_s = time.monotonic()
        with (
            task_workers(
                spark, "restore", events, over_spark=uses_spark(spark, size_bytes)
            ) as workers,
            events.running(self, self._piece),
            polled_progress(events, partial(self._progress, time.monotonic())),
        ):
            self.results = run_tasks(workers.spread, function, tasks(workers.at_once))
        self._seconds = time.monotonic() - begun_s

    def stop(self) -> None:
        """End after the pieces that are written now."""
        self.board.stop()

    def report(self, ranges: Ranges, rows_by_partition: Mapping[TopicPartition, int]) -> JobReport:
        """Report where all runs have written, and how much."""
        return JobReport(
            name="restore",
            ending=Ending.REACHED if self.is_complete else Ending.STOPPED,
            rows=sum(result.rows for result in self.results),
            seconds=self._seconds,
            ranges=ranges,
            rows_by_partition=rows_by_partition,
        )

    def _progress(self, begun_s: float) -> JobProgress:
        rows = self.board.rows()
        return JobProgress(
            rows=rows, seconds=time.monotonic() - begun_s, backlog=max(self._rows - rows, 0)
        )


def run_tasks(
    spread: Spread, function: Callable[[TaskT], TaskResult], tasks: Sequence[TaskT]
) -> list[TaskResult]:
    """Do all tasks. Raises PipelineError with the first refusal if one could not go on."""
    results = spread(function, tasks)
    for result in results:
        if result.refusal is not None:
            raise PipelineError(result.refusal, result.code, result.trouble)
    return results
