"""`kbroker pipeline archive`: topics as Parquet files, every record once; and the archive's upkeep.

    kbroker pipeline archive --bootstrap HOST:PORT --topics a,b --to DIR --checkpoint DIR --once
    kbroker pipeline archive list|merge|expire --to DIR

Exit codes: 0 fine; 1 the job could not go on, or with --strict offsets are missing that nothing
explains or that cannot be read; 2 usage; 3 cannot connect.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbroker.cli.pipeline.archive_upkeep import UPKEEP, merge_archive
from kbroker.cli.pipeline.job_display import StreamDisplay
from kbroker.cli.pipeline.job_plan import print_plan
from kbroker.cli.pipeline.parameters import directory
from kbroker.cli.pipeline.stream_options import source_options
from kbroker.cli.shown.output import counted, say

if TYPE_CHECKING:
    from kbroker.pipeline.jobs.stream import Stream
    from kbroker.pipeline.spark_job.session import SessionSettings


class ArchiveCommand(click.Command):
    """The job itself, and commands of upkeep by their names. `archive merge` needs no checkpoint,
    so it is a command of its own behind the job's name.
    """

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Make the context of the command that the first argument names, or of the job."""
        upkeep = UPKEEP.get(args[0]) if args else None
        if upkeep is None:
            return super().make_context(info_name, args, parent, **extra)
        return upkeep.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the commands of upkeep."""
        with formatter.section("Upkeep"):
            formatter.write_dl(
                [
                    (f"archive {name}", each.get_short_help_str(limit=80))
                    for name, each in UPKEEP.items()
                ]
            )


@click.command(cls=ArchiveCommand)
@click.option("--to", "target", required=True, type=directory, metavar="DIR", help="The archive.")
@click.option(
    "--allow-loss", is_flag=True,
    help="Continue where the source deleted records before they were archived, or has some that "
    "cannot be read, and note them as lost.",
)  # fmt: skip
@click.option(
    "--strict", is_flag=True,
    help="End with exit code 1 if offsets are missing that nothing explains, or cannot be read.",
)  # fmt: skip
@click.option(
    "--json-schema", "json_schemas", multiple=True, metavar="[TOPIC=]SCHEMA",
    help="Parse values as JSON into a column `json`: DDL such as 'id BIGINT, name STRING', or the "
    "name of a file with DDL or a Spark schema. May be repeated, with TOPIC= for one topic.",
)  # fmt: skip
@click.option("--merge", is_flag=True, help="Merge small files of past hours afterwards.")
@source_options
def archive(
    stream: Stream,
    spark: SessionSettings,
    target: str,
    allow_loss: bool,
    strict: bool,
    json_schemas: tuple[str, ...],
    merge: bool,
    metrics: str | None,
    dry_run: bool,
    output: str,
) -> int:
    """Keep topics as Parquet files, every record exactly once.

    A run that was killed goes on where it was. Files of an hour are below DIR/data/TOPIC/DATE/HOUR,
    by the records' own times in UTC; DIR/manifests says what belongs to the archive.
    """
    from kbroker.pipeline.archiving.manifests.manifest import UNEXPLAINED, UNREADABLE
    from kbroker.pipeline.jobs.archive import archive as run_archive  # Arrow: 0.3 s, and the extra

    display = StreamDisplay(metrics, output, print_plan if dry_run else None)
    report = run_archive(
        stream,
        to=target,
        allow_loss=allow_loss,
        json_schemas=dict(_schema_text(text) for text in json_schemas),
        spark=spark,
        events=display,
    )
    parts = [counted(report.files, "file")]
    parts += [f"{count:,} offsets without record: {why}" for why, count in report.missing.items()]
    if report.rejected:
        parts.append(f"{report.rejected:,} values that did not parse")
    say("; ".join(parts))
    code = display.exit_code(report)
    if merge and code == 0:  # who stopped the run does not wait for more
        merge_archive(os.path.abspath(target))
    unsaid = any(report.missing.get(reason) for reason in (UNEXPLAINED, UNREADABLE))
    return 1 if code == 0 and strict and unsaid else code


def _schema_text(text: str) -> tuple[str | None, str]:
    """Topic (None: all) and schema; the schema may be the name of a file."""
    topic, equals, schema = text.partition("=")
    if not equals:
        topic, schema = "", text
    if os.path.isfile(schema):  # as a Path a long schema would be an error
        schema = Path(schema).read_text(encoding="utf-8")
    return topic.strip() or None, schema.strip()
