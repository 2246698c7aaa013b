"""`kbroker pipeline audit`: directories, archive and cluster checked against each other.

Up to 1 GiB is checked in this process, without Java: Spark would take longer to start. More goes
over Spark, and so does all with a `--master`, and reading a cluster with `--deep`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbroker.cli.arguments.bootstrap_reading import bootstrap_of_call
from kbroker.cli.arguments.connection import ExitCode
from kbroker.cli.arguments.directory_argument import PlaceArgument
from kbroker.cli.arguments.log_paths import named
from kbroker.cli.pipeline.job_display import Sayings
from kbroker.cli.pipeline.parameters import names
from kbroker.cli.pipeline.session_options import job_options
from kbroker.cli.pipeline.written_paths import prepare_directory, prepare_file
from kbroker.cli.shown.output import counted, filled, print_rows, say
from kbroker.cli.shown.progress import CountedProgress
from kbroker.inspection.finding import Severity

if TYPE_CHECKING:
    from kbroker.pipeline.auditing.audit_plan import AuditPlan
    from kbroker.pipeline.auditing.audit_report import AuditReport
    from kbroker.pipeline.spark_job.session import SessionSettings

_PAGE_SUFFIXES = (".html", ".htm")


def _page_file(text: str) -> Path:
    if Path(text).suffix.lower() not in _PAGE_SUFFIXES:
        raise click.BadParameter(f"'{text}' does not end in .html: the report is a page")
    return Path(text)


@click.command("audit")
@click.option(
    "--data", multiple=True, type=PlaceArgument(), metavar="DIR",
    help="A data directory, kbroker's or Apache Kafka's, or one partition of it; the broker may "
    "be running or dead. May be repeated.",
)  # fmt: skip
@click.option(
    "--archive", type=PlaceArgument(), metavar="DIR",
    help="An archive of `kbroker pipeline archive`.",
)  # fmt: skip
@click.option(
    "--bootstrap", envvar="KBROKER_BOOTSTRAP", metavar="HOST:PORT",
    help="A cluster (or KBROKER_BOOTSTRAP).",
)  # fmt: skip
@click.option("--topics", type=names, default="", metavar="A,B", help="Only these topics.")
@click.option("--deep", is_flag=True, help="Open every batch, and compare records.")
@click.option(
    "--window", type=click.Choice(("hour", "day")), default="hour", show_default=True,
    help="Count records by hours or days.",
)  # fmt: skip
@click.option(
    "--report", type=_page_file, metavar="FILE.html",
    help="Write the report as a page.",
)  # fmt: skip
@click.option(
    "--findings", type=click.Path(file_okay=False), metavar="DIR",
    help="Write findings and counts as Parquet tables.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Warnings end with exit code 1 too.")
@click.option("--quiet", is_flag=True, help="Show errors and warnings, no notes.")
@click.option("--dry-run", is_flag=True, help="Print what would be checked, and stop.")
@job_options
@click.pass_context
def audit(ctx: click.Context, /, spark: SessionSettings, **given: Any) -> None:
    """Check data directories, an archive and a cluster, each by itself and against each other.

    Any of the three may be left out. Nothing is written but the report. Exit code 0: nothing is
    wrong; 1: data is at risk (severity error); 2: usage; 3: the cluster cannot be reached.
    """
    from kbroker.pipeline.jobs.audit import audit as check

    has_other_source = bool(given["data"] or given["archive"])
    display = _AuditDisplay(spark.master, given)
    try:
        result = check(
            data=[named(path) for path in given["data"]],
            bootstrap=bootstrap_of_call(ctx, has_other_source=has_other_source),
            spark=spark,
            events=display,
            **{name: given[name] for name in ("archive", "topics", "deep", "window")},
        )
    finally:
        display.end()
    report = given["report"]
    _print(result, given["output"], quiet=given["quiet"], has_page=report is not None)
    _write(result, report, given["findings"])  # a full disk does not hide what was found
    _summary(result, time.monotonic() - display.begun_s)
    limit = Severity.WARNING if given["strict"] else Severity.ERROR
    if any(each.finding.severity >= limit for each in result.findings):
        sys.stdout.flush()
        raise click.exceptions.Exit(ExitCode.ITEM_FAILED)


class _AuditDisplay(Sayings):
    """Counts the tasks of this process on a terminal; a dry run ends when its plan is shown."""

    def __init__(self, master: str, given: Mapping[str, Any]) -> None:
        super().__init__()
        self._master, self._given = master, given
        self._progress = CountedProgress("auditing")
        self.begun_s = time.monotonic()

    def planned(self, plan: AuditPlan, *, over_spark: bool) -> None:
        """See that what is asked for can be written, before any work."""
        given = self._given
        if given["dry_run"]:
            _print_plan(plan, self._master if over_spark else None, given["output"])
            raise click.exceptions.Exit(ExitCode.FINE)
        if given["report"] is not None:
            prepare_file(given["report"], "--report")
        if given["findings"] is not None:
            prepare_directory(Path(given["findings"]), "--findings")
        self.begun_s = time.monotonic()

    def tasks_done(self, done: int, of: int) -> None:
        self._progress.show(done, of)

    def end(self) -> None:
        self._progress.end()


def _print_plan(plan: AuditPlan, master: str | None, output: str) -> None:
    rows = [
        {"topic": task.topic_partition.topic, "partition": task.topic_partition.partition,
         "segments": len(task.base_offsets), "bytes": task.size_bytes, "path": task.path}
        for task in sorted(plan.logs, key=lambda each: (each.topic_partition, each.path))
    ]  # fmt: skip
    print_rows(rows, ("topic", "partition", "segments", "bytes", "path"), output)
    where = f"over Spark, master {master}" if master else "in this process"
    sides = [f"archive {plan.request.archive}"] if plan.request.archive else []
    sides += [f"cluster {plan.request.bootstrap}"] if plan.request.bootstrap else []
    say(f"{counted(len(rows), 'partition')}, {counted(plan.size_bytes, 'byte')}, {where}"
        + "".join(f", {side}" for side in sides))  # fmt: skip


def _write(result: AuditReport, report: Path | None, findings: str | None) -> None:
    if findings is not None:
        from kbroker.pipeline.auditing.report.tables import write_tables

        for path in write_tables(result, findings.rstrip("/")):
            say(f"wrote {path}")
    if report is not None:
        from kbroker.pipeline.auditing.report.report_page import write_page

        write_page(result, str(report))
        say(f"wrote {report}")


def _print(result: AuditReport, output: str, *, quiet: bool, has_page: bool) -> None:
    from kbroker.pipeline.auditing.audit_finding import FINDING_COLUMNS
    from kbroker.pipeline.auditing.audit_report import (
        PARTITION_COLUMNS,
        partition_rows,
        window_rows,
    )

    least = Severity.WARNING if quiet else Severity.INFO
    rows = [each.row() for each in result.findings if each.finding.severity >= least]
    if output == "json":
        document = {
            "findings": rows,
            "partitions": partition_rows(result),
            "windows": window_rows(result),
        }
        click.echo(json.dumps(document, indent=2))
    elif output in ("jsonl", "csv"):
        print_rows(rows, FINDING_COLUMNS, output)
    else:
        for row in rows:
            click.echo(_sentence(row))
        if not has_page:
            shown = partition_rows(result)
            print_rows(shown, filled(shown, PARTITION_COLUMNS), output)


def _sentence(row: dict[str, object]) -> str:
    places = [f"{name} {row[name]}" for name in ("position", "offset") if row[name] is not None]
    where = f" ({', '.join(places)})" if places else ""
    return f"{row['severity']}: {row['path']}{where}: {row['what']}; {row['advice']}"


def _summary(result: AuditReport, elapsed_s: float) -> None:
    totals = result.totals
    parts = [
        counted(len(result.partitions), "partition"),
        f"{counted(totals.segments, 'segment')}, {counted(totals.size_bytes, 'byte')}, "
        f"{counted(totals.records, 'record')}",
    ]
    if result.request.archive:
        parts.append(f"archive: {counted(result.archive_files, 'file')}, "
                     f"{counted(result.archive_bytes, 'byte')}")  # fmt: skip
    if result.compared_records:
        parts.append(f"{counted(result.compared_records, 'record')} compared")
    say(f"{'; '.join(parts)}; in {elapsed_s:.1f} s, {result.cpu_s:.1f} s of CPU")
    counts = {severity: result.count(severity) for severity in Severity}
    say(
        f"{counted(counts[Severity.ERROR], 'error')}, "
        f"{counted(counts[Severity.WARNING], 'warning')}, {counted(counts[Severity.INFO], 'note')}"
    )
