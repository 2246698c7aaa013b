"""`kbroker pipeline restore`: an archive written back, into the topics of a cluster or as a data
directory.

    kbroker pipeline restore --archive DIR --bootstrap HOST:PORT --checkpoint DIR
    kbroker pipeline restore --archive DIR --data DIR --checkpoint DIR

Archives of up to 1 GiB are written back in this process, without Java: Spark would take longer to
start. Larger ones go over Spark, and so do all with a `--master`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kbroker.cli.arguments.bootstrap_reading import bootstrap_of_call
from kbroker.cli.arguments.directory_argument import DirectoryArgument
from kbroker.cli.pipeline.job_display import JobDisplay, print_partitions, report_text
from kbroker.cli.pipeline.parameters import (
    date_ms,
    directory,
    names,
    numbers,
    pair,
    size,
    written_options,
)
from kbroker.cli.pipeline.session_options import job_options
from kbroker.cli.shown.output import counted, duration_text, print_rows, say
from kbroker.pipeline.spark_job.batch import Ending, JobProgress, JobReport

if TYPE_CHECKING:
    from kbroker.pipeline.restoring.restore_plan import RestorePlan
    from kbroker.pipeline.spark_job.session import SessionSettings

_OF_CLUSTERS = {
    "append": "--append",
    "no_groups": "--no-groups",
    "replication_factor": "--replication-factor",
}
_AS_GIVEN = (
    "archive", "data", "checkpoint", "topics", "partitions", "start_ms", "end_ms", "append",
    "replication_factor", "compression", "max_rate",
)  # fmt: skip
_PLAN_COLUMNS = ("topic", "partition", "target", "files", "rows", "size_bytes")


@click.command("restore")
@click.option("--archive", required=True, type=directory, metavar="DIR", help="The archive.")
@click.option(
    "--bootstrap", envvar="KBROKER_BOOTSTRAP", metavar="HOST:PORT",
    help="The cluster to write to (or KBROKER_BOOTSTRAP).",
)  # fmt: skip
@click.option(
    "--data", type=directory, metavar="DIR",
    help="The data directory to make instead, new or empty: records keep their offsets.",
)  # fmt: skip
@click.option(
    "--checkpoint", required=True, type=DirectoryArgument(), metavar="DIR",
    help="Where the job notes what it does, with the offset maps: a directory of its own.",
)  # fmt: skip
@click.option("--topics", type=names, default="", metavar="A,B", help="Only these topics.")
@click.option(
    "--partitions", type=numbers, default="", metavar="0,1",
    help="Only partitions of these numbers.",
)  # fmt: skip
@click.option(
    "--from", "start_ms", type=date_ms, metavar="DATE", help="Only records of this time or later."
)
@click.option(
    "--to", "end_ms", type=date_ms, metavar="DATE",
    help="Only records before this time: the topics as they were then.",
)  # fmt: skip
@click.option(
    "--key", "keys", multiple=True, metavar="TEXT",
    help="Only records with this key; may be repeated.",
)  # fmt: skip
@click.option(
    "--rename", "renamed", type=pair, multiple=True, metavar="TOPIC=NAME",
    help="Write a topic under another name; may be repeated.",
)  # fmt: skip
@click.option("--append", is_flag=True, help="Write behind the records that a topic has.")
@click.option(
    "--no-groups", is_flag=True, help="Leave the offsets of groups as they are in the cluster."
)
@click.option(
    "--setting", "settings", type=pair, multiple=True, metavar="KEY=VALUE",
    help="A setting for new topics, which wins over that in the archive; may be repeated.",
)  # fmt: skip
@written_options
@click.option(
    "--max-rate", type=size, metavar="SIZE", help="Write at most so much a second, such as 10MB."
)
@click.option("--dry-run", is_flag=True, help="Print what would be written, and stop.")
@job_options
@click.pass_context
def restore(ctx: click.Context, /, spark: SessionSettings, **given: Any) -> int:
    """Write an archive back into the topics of a cluster, every record once, or as a directory.

    Keys, values, headers, times and partitions stay. With --data so do offsets, and a broker
    starts over the directory. In a cluster they do not: CHECKPOINT/offsets has a map for each
    partition. A run that was killed goes on where it was.
    """
    from kbroker.pipeline.jobs.restore import restore as run_restore  # Arrow: 0.3 s

    output, data = given["output"], given["data"]
    bootstrap = bootstrap_of_call(ctx, has_other_source=data is not None)
    if data is not None and not bootstrap:
        _check_options(ctx)

    def show_plan(plan: RestorePlan, over_spark: bool) -> None:
        _print_plan(plan, spark.master if over_spark else None, output)

    display = JobDisplay(_progress_text, show_plan=show_plan if given["dry_run"] else None)
    report = run_restore(
        bootstrap=bootstrap,
        groups=not given["no_groups"],
        keys=[os.fsencode(key) for key in given["keys"]],
        rename=_renamed(given["renamed"]),
        settings=dict(given["settings"]),
        spark=spark,
        events=display,
        **{name: given[name] for name in _AS_GIVEN},
    )
    if not report.rows_by_partition:  # an earlier run had restored everything
        return 0
    print_partitions(report, output)
    say(f"{report_text(report, counted(report.rows, 'row'))}; {_advice(report, given)}")
    return 1 if report.refused_groups else display.exit_code(report)


def _check_options(ctx: click.Context) -> None:
    """Raises UsageError for options of the other target."""
    for name, option in _OF_CLUSTERS.items():
        if ctx.get_parameter_source(name) not in (ParameterSource.DEFAULT, None):
            raise click.UsageError(
                f"{option} is for topics of a cluster (--bootstrap), and --data makes a directory "
                "of one broker"
            )


def _advice(report: JobReport, given: Mapping[str, Any]) -> str:
    from kbroker.pipeline.restoring.topics.restore_checkpoint import MAPS

    if given["data"] is None:
        return f"offset maps are in {given['checkpoint'].rstrip('/')}/{MAPS}"
    if report.ending is Ending.REACHED:
        return f"`kbroker start --data {shlex.quote(given['data'])}` serves it"
    return "run again to go on"


def _progress_text(progress: JobProgress) -> str:
    rate, left = progress.rows / max(progress.seconds, 1e-6), progress.backlog or 0
    parts = [counted(progress.rows, "row"), f"{rate:,.0f} rows/s", f"at most {left:,} to go"]
    if rate >= 1:
        parts.append(f"{duration_text(left / rate)} left")
    return f"restore: {', '.join(parts)}"


def _renamed(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """New names by topic. Raises UsageError if one has two: each record is written once."""
    found: dict[str, str] = {}
    for topic, name in pairs:
        other = found.setdefault(topic, name)
        if other != name:
            raise click.UsageError(
                f"--rename gives {topic} two names, {other} and {name}: a second restore, with a "
                "--checkpoint of its own, writes it a second time"
            )
    return found


def _print_plan(plan: RestorePlan, master: str | None, output: str) -> None:
    rows = [
        {
            "topic": each.source.topic,
            "partition": each.source.partition,
            "target": each.target.topic,
            "files": len(each.files),
            "rows": each.rows,
            "size_bytes": each.size_bytes,
        }
        for each in plan.partitions
    ]
    print_rows(rows, _PLAN_COLUMNS, output)
    where = f"over Spark, master {master}" if master else "in this process"
    say(f"at most {counted(plan.rows, 'row')} of {counted(len(rows), 'partition')}, {where}")
