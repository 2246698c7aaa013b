"""The result of a restore's task, and what the driver makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kbroker.client.exit_code import ExitCode
from kbroker.errors import Trouble
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.spread import Spread

TaskT = TypeVar("TaskT")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The work on one partition; `refusal` is why it could not go on."""

    rows: int = 0  # by this run
    rows_before: int = 0  # by earlier ones, if the task knows
    is_complete: bool = False
    refusal: str | None = None
    code: ExitCode = ExitCode.ITEM_FAILED
    trouble: Trouble | None = None


def run_tasks(
    spread: Spread, function: Callable[[TaskT], TaskResult], tasks: Sequence[TaskT]
) -> list[TaskResult]:
    """Do all tasks; raises PipelineError with the first refusal."""
    results = spread(function, tasks)
    for result in results:
        if result.refusal is not None:
            raise PipelineError(result.refusal, result.code, result.trouble)
    return results
