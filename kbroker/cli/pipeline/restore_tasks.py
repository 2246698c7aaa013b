"""Runs the tasks of a restore for a person: progress, Ctrl-C, how long it took, and exit code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from kbroker.cli.arguments.connection import ExitCode
from kbroker.cli.pipeline.job_signals import exit_code, leave_by, stopping
from kbroker.cli.pipeline.session_options import SessionOptions
from kbroker.cli.pipeline.task_spread import tasks_spread
from kbroker.cli.pipeline.watched_line import WatchedLine
from kbroker.cli.shown.output import counted, duration_text, say
from kbroker.pipeline.restoring.task_board import TaskBoard
from kbroker.pipeline.restoring.task_result import TaskResult, run_tasks

TaskT = TypeVar("TaskT")

REPORT_COLUMNS = ("topic", "partition", "start_offset", "end_offset", "rows")


class RestoreTasks:
    """The tasks of one run."""

    def __init__(self, board: TaskBoard, rows: int, piece: str) -> None:
        """At most so many rows are written; a run that is stopped ends after a `piece`."""
        self._board, self._rows, self._piece = board, rows, piece
        self._stopped_by: list[int] = []
        self._seconds = 0.0
        self.results: list[TaskResult] = []

    @property
    def is_at_end(self) -> bool:
        """Whether all is written."""
        return all(result.is_complete for result in self.results)

    @property
    def exit_code(self) -> ExitCode:
        """That of a run that came to its end, or was stopped."""
        return exit_code(self._stopped_by, is_at_end=self.is_at_end)

    def run(
        self,
        session: SessionOptions | None,
        function: Callable[[TaskT], TaskResult],
        tasks: Callable[[int], Sequence[TaskT]],
    ) -> None:
        """Do those of `tasks`, which is told how many run at once; without a session in this
        process. Raises PipelineError.
        """
        self._board.clear()
        begun_s = time.monotonic()
        with tasks_spread(session, "restore") as (spread, at_once), self._watched():
            self.results = run_tasks(spread, function, tasks(at_once))
        self._seconds = time.monotonic() - begun_s

    def stop(self) -> None:
        """End after the pieces that are written now."""
        self._board.stop()

    def cut(self) -> None:
        """End at once: the next run takes back what is half written."""
        leave_by(self._stopped_by)

    def say_end(self, more: str) -> None:
        """How much was written how fast, and what else there is to say."""
        written = sum(result.rows for result in self.results)
        ending = "reached the end" if self.is_at_end else "stopped"
        rate = written / max(self._seconds, 1e-6)
        say(
            f"restore {ending}: {counted(written, 'row')}, {duration_text(self._seconds)}, "
            f"{rate:,.0f} rows/s; {more}"
        )

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Progress on standard error, and signals."""
        begun_s = time.monotonic()
        line = WatchedLine(lambda: self._progress(time.monotonic() - begun_s))
        try:
            with stopping(self, self._piece) as self._stopped_by:
                yield
        finally:
            line.end()

    def _progress(self, seconds: float) -> str:
        rows = self._board.rows()
        rate = rows / max(seconds, 1e-6)
        left = max(self._rows - rows, 0)
        parts = [counted(rows, "row"), f"{rate:,.0f} rows/s", f"at most {left:,} to go"]
        if rate >= 1:
            parts.append(f"{duration_text(left / rate)} left")
        return f"restore: {', '.join(parts)}"
