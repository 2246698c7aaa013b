"""Runs a streaming job for a person: plan, progress, report, Ctrl-C and exit code.

The first Ctrl-C (or a SIGTERM) ends the job after the batch that runs, the second at once; either
way the report is printed. A batch that was cut is run again by the next call.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from kbroker.cli.connection import ExitCode
from kbroker.cli.output import counted, print_rows, say
from kbroker.cli.pipeline.job_display import JobDisplay, duration_text
from kbroker.cli.pipeline.job_plan import print_plan
from kbroker.cli.pipeline.metrics_file import MetricsFile
from kbroker.cli.pipeline.stream_options import StreamOptions
from kbroker.client.connection import client_options
from kbroker.pipeline.lag.commit_progress import commit_progress
from kbroker.pipeline.spark_job.batch import Ending, JobReport, Work
from kbroker.pipeline.spark_job.checkpoint import Checkpoint
from kbroker.pipeline.spark_job.offsets import Offsets
from kbroker.pipeline.spark_job.session import running_session
from kbroker.pipeline.spark_job.stream_job import JobSettings, StreamJob
from kbroker.pipeline.spark_job.temporary_folder import remove_temporary_folders

_REPORT_COLUMNS = ("topic", "partition", "start_offset", "end_offset", "rows")


def run_stream_job(
    options: StreamOptions,
    kind: str,
    target: str,
    work: Work,
    check: Callable[[Offsets, Offsets], None] | None = None,
) -> int:
    """The exit code of the command. `target` is what the checkpoint remembers, `check` holds the
    one against the other (see JobSettings); raises PipelineError.
    """
    settings = JobSettings(
        kind=kind,
        target=target,
        every_s=options.every_s,
        batch_records=options.batch_records,
        check=check,
    )
    job = StreamJob(options.name, options.source, Checkpoint(options.checkpoint), settings, work)
    if options.is_dry_run:
        print_plan(job, options)
        return 0
    job.prepare()  # what is wrong with source or checkpoint is said before Spark takes its seconds
    metrics = MetricsFile(options.metrics, options.name) if options.metrics else None
    display = JobDisplay(sys.stderr, options.name, metrics)
    session = options.session.settings(f"kbroker {kind}", options.source.needs_connector)
    display.starting()
    with running_session(session) as spark, _signals(job) as stopped_by:
        try:
            with _committing(spark, options):
                report = job.run(spark, display)
        finally:
            display.end()
        print_report(report, options.output)
        code = _exit_code(report, stopped_by)
        if report.ending is Ending.CUT:
            _leave(code)
    return code


def print_report(report: JobReport, output: str) -> None:
    """A row per partition on standard output, and a summary for the person."""
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "start_offset": each.start,
            "end_offset": each.end,
            "rows": report.rows_by_partition.get(partition),
        }
        for partition, each in sorted(report.ranges.items())
    ]
    print_rows(rows, _REPORT_COLUMNS, output)
    for note in report.notes:
        say(note)
    rate = report.rows / max(report.seconds, 1e-6)
    say(
        f"{report.name} {report.ending.value}: {report.rows:,} rows in "
        f"{counted(report.batches, 'batch')}, {duration_text(report.seconds)}, {rate:,.0f} rows/s"
        + (f", {report.backlog:,} offsets to go" if report.backlog else "")
    )


def _exit_code(report: JobReport, stopped_by: list[int]) -> ExitCode:
    if report.ending is Ending.REACHED or not stopped_by:
        return ExitCode.FINE
    return ExitCode.TERMINATED if stopped_by[0] == signal.SIGTERM else ExitCode.INTERRUPTED


@contextmanager
def _committing(spark: Any, options: StreamOptions) -> Iterator[None]:
    """Lets the cluster know of finished batches, where that is wanted."""
    if options.commit_to is None:
        yield
        return
    client = client_options(options.commit_to.cluster)
    address = client.pop("bootstrap_servers")
    listener = commit_progress(spark, address, queries=[options.name], **client)
    try:
        yield
    finally:
        listener.close()


@contextmanager
def _signals(job: StreamJob) -> Iterator[list[int]]:
    """Signals stop the job; yields those that came."""
    came: list[int] = []

    def on_signal(number: int, _: FrameType | None) -> None:
        came.append(number)
        if len(came) == 1:
            job.stop()
            say("\nstopping after this batch; once more stops at once")
        else:
            job.cut()

    before: dict[int, Any] = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(code: int) -> None:
    """End the process while Spark still works: it ends when its driver is gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    remove_temporary_folders()
    os._exit(code)
