"""Whether the newest archived records are at the source still, told by their times."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kbroker.model import TopicPartition
from kbroker.pipeline.archive.identity.source_identity import SourceIdentity
from kbroker.pipeline.archive.manifests.archive_state import ArchiveState
from kbroker.pipeline.archive.manifests.manifest import NO_HOUR, FileEntry


class ArchivedRecord(NamedTuple):
    """A record of the archive: its place, and its time in Unix ms, -1 where it has none."""

    offset: int
    timestamp_ms: int


def newest_records(
    state: ArchiveState, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ArchivedRecord]:
    """The last record of each partition; those whose file cannot be read are left out."""
    newest: dict[TopicPartition, FileEntry] = {}
    for entry in state.files.values():
        place = entry.topic_partition
        if entry.kind != "data" or place not in partitions:
            continue
        if place not in newest or newest[place].last_offset < entry.last_offset:
            newest[place] = entry
    found = {place: _last_record(state.path, entry) for place, entry in newest.items()}
    return {place: record for place, record in sorted(found.items()) if record is not None}


def other_records(
    archived: Mapping[TopicPartition, ArchivedRecord], identity: SourceIdentity
) -> dict[TopicPartition, int]:
    """Partitions where the source has another record in that place, and the time of that one."""
    if not archived:
        return {}
    times = identity.record_times({each: record.offset for each, record in archived.items()})
    return {each: at for each, at in sorted(times.items()) if at != archived[each].timestamp_ms}


def other_record_sentence(
    partition: TopicPartition, archived: ArchivedRecord, path: str, timestamp_ms: int
) -> str:
    """What is said where the source has other records than the archive."""
    return (
        f"{partition} has another record at offset {archived.offset} than the archive {path}: its "
        f"time is {timestamp_ms}, not {archived.timestamp_ms}; the log was cut and written on, or "
        "it is another topic's; --allow-loss keeps the archived records and goes on behind them, "
        "another archive begins anew"
    )


def _last_record(path: str, entry: FileEntry) -> ArchivedRecord | None:
    if entry.hour == NO_HOUR:
        return None  # its time is missing, or one that is not kept exactly
    try:
        with pq.ParquetFile(f"{path}/{entry.path}") as file:
            group = file.read_row_group(file.num_row_groups - 1, columns=["offset", "timestamp"])
    except (OSError, pa.ArrowException):
        return None  # an audit tells of it
    offset, time_us = (
        group.column(name)[-1].cast(pa.int64()).as_py() for name in ("offset", "timestamp")
    )
    return ArchivedRecord(offset, time_us // 1_000)
