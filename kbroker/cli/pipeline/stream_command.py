"""Runs a streaming job for a person: plan, progress, report, Ctrl-C and exit code.

The first Ctrl-C (or a SIGTERM) ends the job after the batch that runs, the second at once; either
way the report is printed. A batch that was cut is run again by the next call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kbroker.cli.pipeline.job_display import JobDisplay
from kbroker.cli.pipeline.job_plan import print_plan
from kbroker.cli.pipeline.job_signals import exit_code, leave, stopping
from kbroker.cli.pipeline.metrics_file import MetricsFile
from kbroker.cli.pipeline.stream_options import StreamOptions
from kbroker.cli.shown.output import counted, duration_text, print_rows, say
from kbroker.pipeline.consumer_lag.commit_progress import commit_progress
from kbroker.pipeline.spark_job.batch import Ending, JobReport, Work
from kbroker.pipeline.spark_job.checkpoint import Checkpoint
from kbroker.pipeline.spark_job.offsets import Offsets
from kbroker.pipeline.spark_job.session import running_session
from kbroker.pipeline.spark_job.stream_job import JobSettings, StreamJob

_REPORT_COLUMNS = ("topic", "partition", "start_offset", "end_offset", "rows")


@dataclass(frozen=True, slots=True)
class AroundRun:
    """What a job does besides its batches, with the session: before the first one, and where the
    run has reached its end.
    """

    before: Callable[[Any], None] = lambda _spark: None
    at_end: Callable[[Any, str], None] = lambda _spark, _job_id: None


def run_stream_job(
    options: StreamOptions,
    kind: str,
    target: str,
    work: Work,
    check: Callable[[Offsets, Offsets], None] | None = None,
    around: AroundRun | None = None,
) -> int:
    """The exit code of the command. `target` is what the checkpoint remembers, `check` holds the
    one against the other (see JobSettings); raises PipelineError.
    """
    around = around or AroundRun()
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
    with running_session(session) as spark, stopping(job) as stopped_by:
        try:
            around.before(spark)
            with _committing(spark, options):
                report = job.run(spark, display)
            if report.ending is Ending.REACHED:
                around.at_end(spark, report.job_id)
        finally:
            display.end()
        print_report(report, options.output)
        code = exit_code(stopped_by, is_at_end=report.ending is Ending.REACHED)
        if report.ending is Ending.CUT:
            leave(code)
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
        f"{report.name} {report.ending.value}: {counted(report.rows, 'row')} in "
        f"{counted(report.batches, 'batch')}, {duration_text(report.seconds)}, {rate:,.0f} rows/s"
        + (f", {report.backlog:,} offsets to go" if report.backlog else "")
    )


@contextmanager
def _committing(spark: Any, options: StreamOptions) -> Iterator[None]:
    """Lets the cluster know of finished batches, where that is wanted."""
    if options.commit_to is None:
        yield
        return
    listener = commit_progress(spark, options.commit_to.cluster, queries=[options.name])
    try:
        yield
    finally:
        listener.close()
