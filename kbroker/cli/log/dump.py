"""`kbroker log dump`: shows the contents of the files of a log."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.arguments.directory_argument import PlaceArgument
from kbroker.cli.arguments.log_paths import log_directory, refuse_missing, storage_errors
from kbroker.cli.log.file_rows import UnreadableFileError, kind_of
from kbroker.cli.log.segment_rows import (
    BATCH_COLUMNS,
    RECORD_ROW_COLUMNS,
    DumpOptions,
    batch_rows,
    record_rows,
)
from kbroker.cli.shown.output import output_option, print_rows, say
from kbroker.decoding.internal_records import internal_decoder_of
from kbroker.decoding.record_rows import json_text
from kbroker.inspection.data_directory import DataDirectory, PartitionDirectory
from kbroker.inspection.log_paths import partition_directories
from kbroker.inspection.partition_files import sort_files
from kbroker.log.disk.file_system import FileSystem, RealFileSystem
from kbroker.log.disk.format import LOG_SUFFIX, log_file, offset_of, parse_directory_name
from kbroker.model import TopicPartition


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A `.log` file, or one that has such a name before `.deleted`, `.cleaned` or `.swap`."""

    path: str
    topic_partition: TopicPartition


@click.command(short_help="Show the batches, records or entries of files.")
@click.argument("paths", nargs=-1, required=True, type=PlaceArgument(), metavar="PATH...")
@click.option("--topic", help="In a data directory: this topic.")
@click.option("--partition", type=int, help="In a data directory: only this partition.")
@click.option("--records", is_flag=True, help="One row per record instead of one per batch.")
@click.option("--offsets", metavar="FROM-TO", help="Only these offsets, both included.")
@click.option(
    "--decode",
    is_flag=True,
    help="Records of __consumer_offsets and __transaction_state in readable form.",
)
@output_option
def dump(  # one parameter per option
    paths: Sequence[str],
    topic: str | None,
    partition: int | None,
    records: bool,
    offsets: str | None,
    decode: bool,
    output: str,
) -> None:
    """Show the batches or records of segments, and the entries of indexes, snapshots, checkpoints.

    A PATH is a file of a log, a partition directory, or a data directory with --topic. Several
    files must be of one kind. Nothing is written; a broker may be running.
    """
    file_system = RealFileSystem()
    first, last = _parse_offsets(offsets)
    options = DumpOptions(first, last, decodes=decode, complain=say)
    segments, files = _resolve(file_system, paths, topic, partition)
    if segments and files:
        raise click.UsageError("segments and other files have different rows: dump them in turn")
    with storage_errors():
        if files:
            has_rows = _dump_files(file_system, files, output)
        else:
            show = _show_records if records or decode else _show_batches
            has_rows = show(file_system, segments, options, output)
    if not has_rows:
        say("no entries" if offsets is None else f"no entries in --offsets {offsets}")
    if options.broken:
        raise click.exceptions.Exit(ExitCode.ITEM_FAILED)


def _parse_offsets(text: str | None) -> tuple[int | None, int | None]:
    """`5-9`, `5-`, `-9` or `5`; inclusive."""
    if text is None:
        return None, None
    first, dash, last = text.partition("-")
    if not all(part == "" or part.isdecimal() for part in (first, last)) or text in ("", "-"):
        raise click.UsageError(f"--offsets '{text}' is not FROM-TO, such as 100-199, 100- or -99")
    if not dash:
        last = first
    bounds = int(first) if first else None, int(last) if last else None
    if None not in bounds and bounds[0] > bounds[1]:  # type: ignore[operator]
        raise click.UsageError(f"--offsets '{text}' ends before it begins")
    return bounds


def _resolve(
    file_system: FileSystem, paths: Sequence[str], topic: str | None, partition: int | None
) -> tuple[list[SegmentFile], list[str]]:
    segments: list[SegmentFile] = []
    files: list[str] = []
    for path in paths:
        if file_system.is_directory(path):
            for directory in _partitions(file_system, path, topic, partition):
                segments.extend(_segments(file_system, directory))
        elif not file_system.exists(path):
            raise click.UsageError(f"{path} does not exist")
        elif _is_segment(os.path.basename(path)):
            segments.append(SegmentFile(path, _partition_of(path)))
        elif kind_of(os.path.basename(path)) is not None:
            files.append(path)
        else:
            raise click.UsageError(
                f"{path} is not a file of a log: those have names such as "
                "00000000000000000000.log, 00000000000000000000.index or leader-epoch-checkpoint"
            )
    return segments, files


def _partitions(
    file_system: FileSystem, path: str, topic: str | None, partition: int | None
) -> list[PartitionDirectory]:
    found = log_directory(file_system, path)
    if isinstance(found, DataDirectory) and topic is None:
        raise click.UsageError(
            f"{path} is a data directory: give --topic, or one of its partitions"
        )
    directories = partition_directories([found], topic, partition)
    if not directories:
        refuse_missing([found], topic, partition)
    return directories


def _segments(file_system: FileSystem, directory: PartitionDirectory) -> Iterator[SegmentFile]:
    with storage_errors():
        names = file_system.list(directory.path)
    for base_offset in sort_files(names).base_offsets:
        path = log_file(directory.path, base_offset)
        yield SegmentFile(path, directory.topic_partition)


def _is_segment(name: str) -> bool:
    return offset_of(name) is not None and name.split(".")[1] == LOG_SUFFIX[1:]


def _partition_of(path: str) -> TopicPartition:
    """Return the partition by the name of the directory; a copied file may lie anywhere."""
    parent = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return parse_directory_name(parent) or TopicPartition("unknown", -1)


def _check_decodable(segments: Sequence[SegmentFile]) -> None:
    for segment in segments:
        if internal_decoder_of(segment.topic_partition.topic) is None:
            raise click.UsageError(
                f"--decode reads __consumer_offsets and __transaction_state, {segment.path} is of "
                f"{segment.topic_partition.topic}"
            )


def _may_hold(
    segment: SegmentFile, segments: Sequence[SegmentFile], first: int | None, last: int | None
) -> bool:
    """Say whether a wanted offset may be in a segment, by the names of the segments."""
    base_offset = offset_of(os.path.basename(segment.path)) or 0
    if last is not None and base_offset > last:
        return False
    following = [
        offset_of(os.path.basename(other.path)) or 0
        for other in segments
        if os.path.dirname(other.path) == os.path.dirname(segment.path)
    ]
    ends_at = min((offset for offset in following if offset > base_offset), default=None)
    return first is None or ends_at is None or ends_at > first


def _show_batches(
    file_system: FileSystem, segments: Sequence[SegmentFile], options: DumpOptions, output: str
) -> bool:
    rows = (
        row
        for segment in _in_range(segments, options)
        for row in batch_rows(file_system, segment.path, options)
    )
    return print_rows(rows, BATCH_COLUMNS, output)


def _show_records(
    file_system: FileSystem, segments: Sequence[SegmentFile], options: DumpOptions, output: str
) -> bool:
    if options.decodes:
        _check_decodable(segments)
    rows = (
        row
        for segment in _in_range(segments, options)
        for row in record_rows(file_system, segment.path, segment.topic_partition, options)
    )
    if output in ("table", "csv"):
        rows = ({**row, "headers": json_text(row["headers"])} for row in rows)
    return print_rows(rows, RECORD_ROW_COLUMNS, output)


def _in_range(segments: Sequence[SegmentFile], options: DumpOptions) -> list[SegmentFile]:
    first, last = options.first_offset, options.last_offset
    return [segment for segment in segments if _may_hold(segment, segments, first, last)]


def _dump_files(file_system: FileSystem, files: Sequence[str], output: str) -> bool:
    kinds = [kind_of(os.path.basename(path)) for path in files]
    columns = {kind.columns for kind in kinds if kind is not None}
    if len(columns) > 1:
        raise click.UsageError("these files have different rows: dump them in turn")

    def rows() -> Iterator[dict[str, Any]]:
        for path, kind in zip(files, kinds, strict=True):
            assert kind is not None
            yield from kind.read(file_system, path)

    try:
        return print_rows(rows(), columns.pop(), output)
    except UnreadableFileError as error:
        raise CommandError(str(error), ExitCode.ITEM_FAILED) from error
