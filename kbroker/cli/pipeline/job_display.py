"""What a person sees while a job runs: one line with rows, rows/s, backlog and time left."""

from __future__ import annotations

import time
from collections import deque
from typing import TextIO

from kbroker.cli.pipeline.metrics_file import MetricsFile
from kbroker.cli.shown.output import counted, duration_text
from kbroker.cli.shown.terminal_line import TerminalLine
from kbroker.pipeline.spark_job.batch import BatchReport, JobProgress
from kbroker.pipeline.spark_job.offsets import Ranges

_PLAIN_INTERVAL_S = 10.0
_RATE_WINDOW_S = 60.0


class JobDisplay:
    """Listens to a run. On a terminal the line is written over, elsewhere every 10 s."""

    def __init__(self, stream: TextIO, name: str, metrics: MetricsFile | None) -> None:
        self._stream = stream
        self._name = name
        self._metrics = metrics
        self._is_terminal = stream.isatty()
        first_s = time.monotonic() + (0 if self._is_terminal else _PLAIN_INTERVAL_S)
        self._line = TerminalLine(stream, first_s, _PLAIN_INTERVAL_S)
        self._recent: deque[tuple[float, int]] = deque()  # moment in the run, rows until then

    def starting(self) -> None:
        """Spark takes its seconds; a terminal is told so."""
        if self._is_terminal:
            self._line.show(f"{self._name}: starting Spark", time.monotonic())

    def began(self, batch: int, ranges: Ranges) -> None:
        """Seen in the progress."""

    def finished(self, report: BatchReport) -> None:
        """Write the metrics."""
        if self._metrics is not None:
            self._metrics.write(report)

    def progress(self, progress: JobProgress) -> None:
        """Write the line if it is time to."""
        now_s = time.monotonic()
        if not self._line.is_due(now_s):
            return
        self._recent.append((progress.seconds, progress.rows))
        while progress.seconds - self._recent[0][0] > _RATE_WINDOW_S:
            self._recent.popleft()
        begun_s, before = self._recent[0] if len(self._recent) > 1 else (0.0, 0)
        rate = (progress.rows - before) / max(progress.seconds - begun_s, 1e-6)
        self._line.show(progress_text(self._name, progress, rate), now_s)

    def tries_again(self, sentence: str) -> None:
        """A line of its own, which stays."""
        self._line.end()
        self._stream.write(f"{self._name}: {sentence}\n")
        self._stream.flush()

    def end(self) -> None:
        """Take the line away."""
        self._line.end()


def progress_text(name: str, progress: JobProgress, rate: float) -> str:
    """`archive: 1,200,000 rows in 3 batches, 81,000 rows/s, 40,000 to go, 1 s left`."""
    parts = [_done_text(progress)]
    if rate >= 1:
        parts.append(f"{rate:,.0f} rows/s")
    if progress.trouble is not None:
        parts.append(f"waiting: {progress.trouble}")
    elif progress.backlog:
        parts.append(f"{progress.backlog:,} to go")
        if rate >= 1:
            parts.append(f"{duration_text(progress.backlog / rate)} left")
    elif not progress.is_working:
        parts.append("nothing to do")
    return f"{name}: {', '.join(parts)}"


def _done_text(progress: JobProgress) -> str:
    if progress.batches == 0 and progress.is_working:
        return "the first batch runs"
    if progress.batches == 0 and progress.backlog and progress.trouble is None:
        return "Spark prepares the first batch"
    return f"{counted(progress.rows, 'row')} in {counted(progress.batches, 'batch')}"
