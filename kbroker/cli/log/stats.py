"""`kbroker log stats`: what logs are made of, from the headers of their batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from kbroker.cli.arguments.directory_argument import PlaceArgument
from kbroker.cli.arguments.log_paths import log_directory, refuse_missing, storage_errors
from kbroker.cli.shown.output import counted, output_option, print_rows, say
from kbroker.cli.shown.progress import Progress
from kbroker.inspection.log_paths import partition_directories
from kbroker.inspection.partition_stats import LogStats, partition_stats
from kbroker.log.disk.file_system import RealFileSystem

_COLUMNS = (
    "topic",
    "partition",
    "segments",
    "size_bytes",
    "batches",
    "records",
    "first_offset",
    "last_offset",
    "missing_offsets",
    "first_timestamp_ms",
    "last_timestamp_ms",
    "average_batch_bytes",
    "biggest_batch_bytes",
    "codecs",
    "formats",
    "unreadable_bytes",
)


@click.command(short_help="Print sizes, counts, bounds and codecs.")
@click.argument("directories", nargs=-1, required=True, type=PlaceArgument(), metavar="DIR...")
@click.option("--topic", help="Only this topic.")
@click.option("--by-topic", is_flag=True, help="One row per topic instead of per partition.")
@click.option(
    "--sort",
    type=click.Choice(_COLUMNS),
    help="Largest first by this column (default: by topic and partition).",
)
@output_option
def stats(
    directories: Sequence[str], topic: str | None, by_topic: bool, sort: str | None, output: str
) -> None:
    """Print sizes, counts, bounds and codecs of the logs in data or partition directories.

    Only the headers of batches are read; a broker may be running.
    """
    file_system = RealFileSystem()
    paths = [log_directory(file_system, directory) for directory in directories]
    partitions = partition_directories(paths, topic)
    if not partitions:
        refuse_missing(paths, topic)
    progress = Progress("reading")
    rows: dict[object, LogStats] = {}
    with storage_errors():
        for directory in partitions:
            progress.begin(str(directory.topic_partition))
            found = partition_stats(file_system, directory.path, directory.topic_partition)
            if found is None:
                say(f"{directory.path} was deleted meanwhile")
                continue
            progress.add(found.size_bytes)
            key = found.topic if by_topic else directory.path
            if key in rows:
                rows[key].merge(found)
            else:
                rows[key] = found
    progress.end()
    printed = [_row(entry, by_topic=by_topic) for entry in rows.values()]
    if output in ("table", "csv"):
        for row in printed:
            row["codecs"] = _shares(row["codecs"])
            row["formats"] = _shares(row["formats"])
    printed.sort(key=lambda row: (row["topic"], row["partition"] or 0))
    if sort is not None:
        printed.sort(key=lambda row: _rank(row[sort]), reverse=True)
    columns = [name for name in _COLUMNS if not by_topic or not name.endswith("_offset")]
    if by_topic:
        columns[columns.index("partition")] = "partitions"
    print_rows(printed, columns, output)
    number, size = counted(len(partitions), "partition"), counted(progress.size_bytes, "byte")
    say(f"{number}, {size} in {progress.rate()}")


def _row(entry: LogStats, *, by_topic: bool) -> dict[str, Any]:
    return {
        "topic": entry.topic,
        "partition": None if by_topic else entry.partition,
        "partitions": entry.partitions,
        "segments": entry.segments,
        "size_bytes": entry.size_bytes,
        "batches": entry.batches,
        "records": entry.records,
        "first_offset": _known(entry.first_offset),
        "last_offset": _known(entry.last_offset),
        "missing_offsets": entry.missing_offsets,
        "first_timestamp_ms": _known(entry.first_timestamp),
        "last_timestamp_ms": _known(entry.last_timestamp),
        "average_batch_bytes": entry.average_batch_bytes,
        "biggest_batch_bytes": entry.biggest_batch_bytes,
        "codecs": dict(entry.codec_bytes.most_common()),
        "formats": {str(magic): count for magic, count in sorted(entry.format_batches.items())},
        "unreadable_bytes": entry.unreadable_bytes,
    }


def _shares(counts: dict[str, int]) -> str:
    """`gzip` if there is but one, else `gzip:300 none:120`."""
    if len(counts) == 1:
        return next(iter(counts))
    return " ".join(f"{name}:{count}" for name, count in counts.items())


def _known(value: int) -> int | None:
    return value if value >= 0 else None


def _rank(value: Any) -> tuple[bool, Any]:
    return value is not None, value if value is not None else 0
