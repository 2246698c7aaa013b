"""Runs the tasks of a restore for a person: progress, Ctrl-C, how long it took, and exit code."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from kbroker.cli.connection import ExitCode
from kbroker.cli.output import say
from kbroker.cli.pipeline.job_display import duration_text
from kbroker.cli.pipeline.job_signals import exit_code, leave, stopping
from kbroker.cli.pipeline.session_options import SessionOptions
from kbroker.cli.terminal_line import TerminalLine
from kbroker.pipeline.restore.task_board import TaskBoard
from kbroker.pipeline.restore.task_result import TaskResult, run_tasks
from kbroker.pipeline.spark_job.offsets import Offsets
from kbroker.pipeline.spark_job.session import running_session
from kbroker.pipeline.spark_job.spread import InProcess, OverSpark, Spread

TaskT = TypeVar("TaskT")

REPORT_COLUMNS = ("topic", "partition", "start_offset", "end_offset", "rows")
_LOOK_S = 0.5
_PLAIN_INTERVAL_S = 10.0


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
        with _spread(session) as (spread, at_once), self._watched():
            self.results = run_tasks(spread, function, tasks(at_once))
        self._seconds = time.monotonic() - begun_s

    def stop(self) -> None:
        """End after the pieces that are written now."""
        self._board.stop()

    def cut(self) -> None:
        """End at once: the next run takes back what is half written."""
        by_term = self._stopped_by[:1] == [signal.SIGTERM]
        leave(ExitCode.TERMINATED if by_term else ExitCode.INTERRUPTED)

    def say_end(self, more: str) -> None:
        """How much was written how fast, and what else there is to say."""
        written = sum(result.rows for result in self.results)
        ending = "reached the end" if self.is_at_end else "stopped"
        rate = written / max(self._seconds, 1e-6)
        say(
            f"restore {ending}: {written:,} rows, {duration_text(self._seconds)}, "
            f"{rate:,.0f} rows/s; {more}"
        )

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Progress on standard error, and signals."""
        display = _Display(self._board, self._rows)
        try:
            with stopping(self, self._piece) as self._stopped_by:
                yield
        finally:
            display.end()


class Beginning:
    """What a checkpoint asks a source: an archive is read from its beginning."""

    def earliest(self) -> Offsets:
        """No offsets: each partition has its own group."""
        return {}

    def topic_ids(self) -> Mapping[str, str]:
        """None: the archive has an id."""
        return {}


class _Display:
    """A line on standard error from a thread of its own: on a terminal it is written over,
    elsewhere it comes every 10 s.
    """

    def __init__(self, board: TaskBoard, rows: int) -> None:
        self._board, self._rows = board, rows
        self._begun_s = time.monotonic()
        first_s = self._begun_s + (0 if sys.stderr.isatty() else _PLAIN_INTERVAL_S)
        self._line = TerminalLine(sys.stderr, first_s, _PLAIN_INTERVAL_S)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Take the line away."""
        self._is_over.set()
        self._thread.join()
        self._line.end()

    def _show(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            now_s = time.monotonic()
            if not self._line.is_due(now_s):
                continue
            rows = self._board.rows()
            rate = rows / max(now_s - self._begun_s, 1e-6)
            left = max(self._rows - rows, 0)
            parts = [f"{rows:,} rows", f"{rate:,.0f} rows/s", f"at most {left:,} to go"]
            if rate >= 1:
                parts.append(f"{duration_text(left / rate)} left")
            self._line.show(f"restore: {', '.join(parts)}", now_s)


@contextmanager
def _spread(session: SessionOptions | None) -> Iterator[tuple[Spread, int]]:
    """Yield who runs the tasks, and how many at once."""
    if session is None:
        yield InProcess(), 1
        return
    say(f"restoring with Spark, master {session.master}")
    with running_session(session.settings("kbroker restore", needs_connector=False)) as spark:
        yield OverSpark(spark), spark.sparkContext.defaultParallelism
