"""The answer of a task of a restore or a mirror."""

from __future__ import annotations

from dataclasses import dataclass

from kbroker.client.exit_code import ExitCode
from kbroker.errors import Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The work on one partition; `refusal` says why it could not go on."""

    rows: int = 0  # by this run
    rows_before: int = 0  # by earlier ones, if the task knows
    is_complete: bool = False
    refusal: str | None = None
    code: ExitCode = ExitCode.ITEM_FAILED
    trouble: Trouble | None = None
