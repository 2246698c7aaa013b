"""The screen of a job: its plan, its sentences, a line of progress, and its report."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click

from kbroker.cli.arguments.connection import ExitCode
from kbroker.cli.pipeline.job_signals import exit_code, leave, stopping
from kbroker.cli.pipeline.metrics_file import MetricsFile
from kbroker.cli.shown.output import counted, duration_text, print_rows, say
from kbroker.cli.shown.terminal_line import TerminalLine
from kbroker.pipeline.spark_job.batch import BatchReport, Ending, JobProgress, JobReport
from kbroker.pipeline.spark_job.job_events import JobEvents, StoppableJob

ShowPlan = Callable[[Any, bool], None]  # a plan, and whether it runs over Spark
REPORT_COLUMNS = ("topic", "partition", "start_offset", "end_offset", "rows")
_PLAIN_INTERVAL_S = 10.0
_RATE_WINDOW_S = 60.0


class Sayings(JobEvents):
    """Says what a job says. With `show_plan` the job ends there: it is a dry run."""

    def __init__(self, show_plan: ShowPlan | None = None) -> None:
        self._show_plan = show_plan

    def note(self, sentence: str) -> None:
        say(sentence)

    def planned(self, plan: Any, *, over_spark: bool) -> None:
        if self._show_plan is not None:
            self._show_plan(plan, over_spark)
            raise click.exceptions.Exit(ExitCode.FINE)


class JobDisplay(Sayings):
    """Follows a job, writes its metrics, and lets signals stop it. The line is written over on a
    terminal; elsewhere there is one every 10 s.
    """

    def __init__(
        self,
        text: Callable[[JobProgress], str],
        *,
        name: str = "",
        metrics: str | None = None,
        show_plan: ShowPlan | None = None,
        stream: TextIO = sys.stderr,
    ) -> None:
        super().__init__(show_plan)
        self._text, self._name, self._stream = text, name, stream
        self._metrics = MetricsFile(Path(metrics)) if metrics else None
        first_s = time.monotonic() + (0 if stream.isatty() else _PLAIN_INTERVAL_S)
        self._line = TerminalLine(stream, first_s, _PLAIN_INTERVAL_S)
        self._stopped_by: Sequence[int] = ()
        if not stream.isatty():
            self.progress_interval_s = _PLAIN_INTERVAL_S

    def begin_metrics(self) -> None:
        """Raises CommandError or PipelineError if the metrics cannot be written."""
        if self._metrics is not None:
            self._metrics.begin()

    @contextmanager
    def running(self, job: StoppableJob, piece: str) -> Iterator[None]:
        try:
            with stopping(job, piece) as self._stopped_by:
                yield
        finally:
            self.end()

    def finished(self, report: BatchReport) -> None:
        if self._metrics is not None:
            self._metrics.write(self._name, report)

    def progress(self, progress: JobProgress) -> None:
        now_s = time.monotonic()
        if self._line.is_due(now_s):
            self._line.show(self._text(progress), now_s)

    def exit_code(self, report: JobReport) -> ExitCode:
        """The code for a run that came to its end, or that a signal stopped."""
        return exit_code(self._stopped_by, is_at_end=report.ending is Ending.REACHED)

    def end(self) -> None:
        """Take the line away."""
        self._line.end()


class StreamDisplay(JobDisplay):
    """Follows a job that reads batch by batch."""

    def __init__(
        self,
        metrics: str | None,
        output: str,
        show_plan: Callable[[Any, str], None] | None = None,
        *,
        stream: TextIO = sys.stderr,
        name: str = "",
    ) -> None:
        shown = None if show_plan is None else lambda plan, _: show_plan(plan, output)
        super().__init__(
            self._with_rate, name=name, metrics=metrics, show_plan=shown, stream=stream
        )
        self._output = output
        self._recent: deque[tuple[float, int]] = deque()  # moment in the run, rows until then

    def planned(self, plan: Any, *, over_spark: bool) -> None:
        """Take the name of the job."""
        self._name = plan.name
        super().planned(plan, over_spark=over_spark)

    def starting(self) -> None:
        """Tell a terminal that Spark takes its seconds, if metrics can be written."""
        self.begin_metrics()
        if self._stream.isatty():
            self._line.show(f"{self._name}: starting Spark", time.monotonic())

    def tries_again(self, sentence: str) -> None:
        """Write a line that stays."""
        self._line.end()
        self._stream.write(f"{self._name}: {sentence}\n")
        self._stream.flush()

    def ended(self, report: JobReport) -> None:
        """Print the report. A run that was cut ends the process, for which Spark would wait."""
        self.end()
        print_partitions(report, self._output)
        for sentence in report.notes:
            say(sentence)
        done = f"{counted(report.rows, 'row')} in {counted(report.batches, 'batch')}"
        to_go = f", {report.backlog:,} offsets to go" if report.backlog else ""
        say(report_text(report, done, report.ending.value) + to_go)
        if report.ending is Ending.CUT:
            leave(self.exit_code(report))

    def _with_rate(self, progress: JobProgress) -> str:
        """The line, with the rate of the last minute."""
        self._recent.append((progress.seconds, progress.rows))
        while progress.seconds - self._recent[0][0] > _RATE_WINDOW_S:
            self._recent.popleft()
        begun_s, before = self._recent[0] if len(self._recent) > 1 else (0.0, 0)
        rate = (progress.rows - before) / max(progress.seconds - begun_s, 1e-6)
        return progress_text(self._name, progress, rate)


def print_partitions(
    report: JobReport, output: str, columns: Sequence[str] = REPORT_COLUMNS
) -> None:
    """Print a row per partition on standard output."""
    rows = []
    for partition in sorted({*report.ranges, *report.rows_by_partition}):
        within = report.ranges.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "start_offset": within.start if within else None,
                "end_offset": within.end if within else None,
                "rows": report.rows_by_partition.get(partition),
                "lag": report.backlog_by_partition.get(partition, 0),
            }
        )
    print_rows(rows, columns, output)


def report_text(report: JobReport, done: str, stopped: str = "stopped") -> str:
    """`archive reached the end: 1,600 rows in 1 batch, 4 s, 400 rows/s`."""
    ending = report.ending.value if report.ending is Ending.REACHED else stopped
    rate = report.rows / max(report.seconds, 1e-6)
    return f"{report.name} {ending}: {done}, {duration_text(report.seconds)}, {rate:,.0f} rows/s"


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
