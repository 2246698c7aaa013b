"""`kbroker pipeline archive list|merge|expire`: what is in an archive, and keeping it in shape.

None of them needs Java. They may run while a job archives; two of them at a time may not.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import click

from kbroker.cli.arguments.time_argument import duration
from kbroker.cli.pipeline.parameters import directory, names, size
from kbroker.cli.pipeline.session_options import pipeline_errors
from kbroker.cli.shown.output import counted, named, output_option, print_rows, say

if TYPE_CHECKING:
    from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState

_COLUMNS = (
    "topic", "partition", "start_offset", "end_offset", "rows", "missing", "files", "size_bytes",
    "first_hour", "last_hour",
)  # fmt: skip
_GROUP_COLUMNS = ("group", "topic", "partition", "committed_offset")
_SETTING_COLUMNS = ("topic", "partitions", "settings")
_HOUR_MS: Final = 3_600_000
_MB: Final = 1024 * 1024


_archive_option = click.option(
    "--to", "target", required=True, type=directory, metavar="DIR", help="The archive."
)
_topics_option = click.option("--topics", type=names, metavar="A,B", help="Only these topics.")


@click.command("list")
@_archive_option
@click.option(
    "--settings", "shows_settings", is_flag=True,
    help="List topics instead, with how many partitions they have and the settings of their own.",
)  # fmt: skip
@click.option(
    "--groups", "shows_groups", is_flag=True, help="List how far groups have read instead."
)
@output_option
def list_archive(target: str, output: str, *, shows_settings: bool, shows_groups: bool) -> None:
    """List partitions with offsets, rows, files, bytes and hours."""
    if shows_settings and shows_groups:
        raise click.UsageError("give one of --settings and --groups")
    with pipeline_errors():
        from kbroker.pipeline.archiving.manifests.archive_reading import read_archive

        state = read_archive(os.path.abspath(target))
    if shows_settings:
        _list_settings(state, output)
    elif shows_groups:
        _list_groups(state, output)
    else:
        _list_partitions(state, output)
    say(
        f"archive {state.archive_id}: {counted(len(state.files), 'file')}, "
        f"{counted(state.number + 1, 'manifest')}"
    )


def _list_partitions(state: ArchiveState, output: str) -> None:
    from kbroker.pipeline.archiving.manifests.archive_state import missing_by_reason

    rows = [_row(state, topic_partition) for topic_partition in state.partitions()]
    print_rows(rows, _COLUMNS, output)
    for topic_partition in state.partitions():
        holes = missing_by_reason(state.holes.get(topic_partition, ()))
        if holes and output == "table":
            told = ", ".join(f"{count:,} {reason}" for reason, count in sorted(holes.items()))
            say(f"{topic_partition}: offsets without record: {told}")


def _list_settings(state: ArchiveState, output: str) -> None:
    rows = []
    for topic in state.topics():
        shown: Any = state.topic_settings.get(topic)
        if shown is not None and output in ("table", "csv"):
            shown = "; ".join(f"{name}={value}" for name, value in sorted(shown.items()))
        count = state.partition_counts.get(topic)
        rows.append({"topic": topic, "partitions": count, "settings": shown})
    print_rows(rows, _SETTING_COLUMNS, output)
    unknown = [topic for topic in state.topics() if topic not in state.topic_settings]
    if unknown:
        say(f"the settings of {named(unknown)} are not known: no cluster has told them")


def _list_groups(state: ArchiveState, output: str) -> None:
    rows = [
        {"group": group, "topic": topic, "partition": number, "committed_offset": offset}
        for group, by_topic in sorted(state.group_offsets.items())
        for topic, offsets in sorted(by_topic.items())
        for number, offset in sorted(offsets.items())
    ]
    print_rows(rows, _GROUP_COLUMNS, output)


@click.command("merge")
@_archive_option
@_topics_option
@click.option(
    "--older-than", type=duration, default="1h", show_default=True, metavar="DURATION",
    help="Only hours that ended at least this long ago: younger ones still grow.",
)  # fmt: skip
@click.option(
    "--target-size", type=size, default="256MB", show_default=True, metavar="SIZE",
    help="Target size of merged files.",
)  # fmt: skip
def merge(target: str, topics: Collection[str] | None, older_than: float, target_size: int) -> None:
    """Merge small files of past hours. Merged files replace them for readers at once; the small
    ones are deleted by a later run, an hour afterwards.
    """
    with pipeline_errors():
        merge_archive(os.path.abspath(target), topics or (), int(older_than * 1_000), target_size)


@click.command("expire")
@_archive_option
@_topics_option
@click.option(
    "--keep", required=True, type=duration, metavar="DURATION",
    help="Delete files whose records are all older than this, such as 30d.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print what would be deleted, and delete nothing.")
@output_option
def expire(
    target: str, topics: Collection[str] | None, keep: float, dry_run: bool, output: str
) -> None:
    """Delete old files from an archive. It remembers their records as expired, and does not archive
    them again. Records without a time do not expire.
    """
    with pipeline_errors():
        from kbroker.pipeline.archiving.upkeep.merge_and_expiry import expire_files

        gone = expire_files(
            os.path.abspath(target), int(keep * 1_000), topics or (), is_dry_run=dry_run
        )
    shown = [{"path": e.path, "rows": e.rows, "size_bytes": e.size_bytes} for e in gone]
    print_rows(shown, ("path", "rows", "size_bytes"), output)
    verb = "would expire" if dry_run else "expired"
    rows = sum(entry.rows for entry in gone)
    say(f"{counted(len(gone), 'file')} {verb}, {counted(rows, 'row')}")


def merge_archive(
    path: str,
    topics: Collection[str] = (),
    older_than_ms: int = _HOUR_MS,
    target_bytes: int = 256 * _MB,
) -> None:
    """Merge small files, and say how many. Raises PipelineError."""
    from kbroker.pipeline.archiving.upkeep.merge_and_expiry import merge_small_files  # pyarrow

    report = merge_small_files(path, topics, older_than_ms, target_bytes)
    say(
        f"{counted(report.files_before, 'file')} merged into {report.files_after}; "
        f"{counted(report.deleted, 'file')} of earlier runs deleted"
    )


def _row(state: ArchiveState, topic_partition: Any) -> dict[str, Any]:
    from kbroker.pipeline.archiving.manifests.manifest import NO_HOUR

    entries = state.entries(topic_partition)
    hours = sorted(entry.hour for entry in entries if entry.hour != NO_HOUR)
    stretches = state.ranges[topic_partition]
    return {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "start_offset": stretches[0].start_offset,
        "end_offset": stretches[-1].end_offset,
        "rows": sum(entry.rows for entry in entries),
        "missing": sum(hole.missing for hole in state.holes.get(topic_partition, ())),
        "files": len(entries),
        "size_bytes": sum(entry.size_bytes for entry in entries),
        "first_hour": hours[0] if hours else None,
        "last_hour": hours[-1] if hours else None,
    }


UPKEEP: Final = {"list": list_archive, "merge": merge, "expire": expire}
