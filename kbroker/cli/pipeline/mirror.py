"""`kbroker pipeline mirror`: topics of one cluster kept as copies in another.

    kbroker pipeline mirror --from HOST:PORT --bootstrap HOST:PORT --topics A,B --checkpoint DIR

It runs in this process, or over Spark with a `--master`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kbroker.cli.arguments.bootstrap_reading import bootstrap_of_call, other_bootstrap
from kbroker.cli.arguments.directory_argument import DirectoryArgument
from kbroker.cli.arguments.time_argument import duration
from kbroker.cli.pipeline.job_display import (
    REPORT_COLUMNS,
    JobDisplay,
    print_partitions,
    report_text,
)
from kbroker.cli.pipeline.parameters import names, pair, written_options
from kbroker.cli.pipeline.session_options import job_options
from kbroker.cli.pipeline.stream_options import every_s
from kbroker.cli.shown.output import counted, say

if TYPE_CHECKING:
    from kbroker.pipeline.spark_job.batch import JobProgress, JobReport
    from kbroker.pipeline.spark_job.session import SessionSettings

_AS_GIVEN = (
    "checkpoint", "topics", "pattern", "append", "allow_loss", "replication_factor", "compression",
)  # fmt: skip


@click.command("mirror")
@click.option("--from", "source", metavar="HOST:PORT", help="The cluster to copy from.")
@click.option(
    "--from-command-config", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="Properties file for the cluster to copy from, where it has TLS or a login.",
)  # fmt: skip
@click.option(
    "--bootstrap", envvar="KBROKER_BOOTSTRAP", metavar="HOST:PORT",
    help="The cluster to copy to (or KBROKER_BOOTSTRAP).",
)  # fmt: skip
@click.option("--topics", type=names, default="", metavar="A,B", help="These topics.")
@click.option("--pattern", metavar="REGEX", help="Topics whose whole name matches, also new ones.")
@click.option(
    "--checkpoint", required=True, type=DirectoryArgument(), metavar="DIR",
    help="Where the job notes whose it is: a directory of its own.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Copy what is there now, and stop.")
@click.option("--every", type=duration, metavar="DURATION", help="Go on, a round every 5s or so.")
@click.option("--append", is_flag=True, help="Write behind the records that a topic has.")
@click.option(
    "--allow-loss", is_flag=True,
    help="Go on where the source has lost records, or has some that cannot be read, or a topic was "
    "created again.",
)  # fmt: skip
@click.option(
    "--setting", "settings", type=pair, multiple=True, metavar="KEY=VALUE",
    help="A setting for the copies, which wins over that of the source; may be repeated.",
)  # fmt: skip
@written_options
@click.option(
    "--metrics", type=click.Path(dir_okay=False), metavar="FILE",
    help="Append a line of JSON per round.",
)  # fmt: skip
@job_options
@click.pass_context
def mirror(ctx: click.Context, /, spark: SessionSettings, **given: Any) -> int:
    """Keep topics of one cluster as copies in another, every record once.

    Partitions, keys, values, headers, times and settings are those of the source, offsets are not:
    groups are moved, by a map that is a topic of the target.
    """
    from kbroker.pipeline.jobs.mirror import mirror as run_mirror  # what it takes to load

    seconds = every_s(ctx)
    source = other_bootstrap(given["source"], given["from_command_config"], "--from")
    if not source:
        raise click.UsageError("give --from HOST:PORT: the cluster to copy from")
    target = bootstrap_of_call(ctx, has_other_source=False)
    if not target:
        raise click.UsageError("give --bootstrap HOST:PORT: the cluster to copy to")
    display = mirror_display(given["metrics"])
    report = run_mirror(
        source=source,
        bootstrap=target,
        every_s=seconds,
        settings=dict(given["settings"]),
        spark=spark,
        events=display,
        **{name: given[name] for name in _AS_GIVEN},
    )
    print_report(report, given["output"])
    return display.exit_code(report)


def mirror_display(metrics: str | None) -> JobDisplay:
    """Raises CommandError if the metrics cannot be written."""
    display = JobDisplay(progress_text, name="mirror", metrics=metrics)
    display.begin_metrics()
    return display


def progress_text(progress: JobProgress) -> str:
    """`mirror: 1,200 rows in 3 rounds, 400 rows/s, lag 0, 0.0 s`."""
    done = f"mirror: {counted(progress.rows, 'row')} in {counted(progress.batches, 'round')}"
    if progress.trouble:
        return f"{done}, waiting: {progress.trouble}"
    lag = "" if progress.backlog is None else f", {_lag_text(progress.backlog, progress.lag_s)}"
    return f"{done}, {progress.rows / max(progress.seconds, 1e-6):,.0f} rows/s{lag}"


def print_report(report: JobReport, output: str) -> None:
    """Print a row per partition on standard output, and a summary for the person."""
    print_partitions(report, output, (*REPORT_COLUMNS, "lag"))
    done = f"{counted(report.rows, 'row')} in {counted(report.batches, 'round')}"
    lag = _lag_text(report.backlog or 0, report.lag_s)
    say(f"{report_text(report, done)}, {counted(report.moved_groups, 'group')} moved, {lag}")


def _lag_text(records: int, seconds: float | None) -> str:
    return f"lag {records:,}" + ("" if seconds is None else f", {seconds:,.1f} s")
