"""A segment in memory, and the rows that its bytes should become, said record by record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kbroker.log.disk.format import LOG_SUFFIX, file_name
from kbroker.pipeline.envelope import EXACT_COLUMNS, RECORD_COLUMNS
from kbroker.pipeline.logdir.columns import LOG_COLUMNS
from kbroker.pipeline.logdir.decode.record_columns import record_batches
from kbroker.pipeline.logdir.java_text import java_text
from kbroker.pipeline.logdir.segment_task import ReadOptions, SegmentTask
from kbroker.record.compression import CODEC_NAMES
from kbroker.record.default_record import Record
from kbroker.record.legacy_record import any_records, read_any_header
from kbroker.record.record_batch import BatchHeader
from tests.fakes.disks.memory_file_system import MemoryFileSystem

ALL_COLUMNS = RECORD_COLUMNS + EXACT_COLUMNS + LOG_COLUMNS
ALL = ReadOptions(columns=ALL_COLUMNS)
TASK = SegmentTask(
    directory="/data/orders-3",
    topic="orders",
    partition=3,
    segment_base_offset=0,
    start_position=0,
    end_position=0,
    start_offset=0,
    end_offset=2**62,
)


def stored(data: bytes, task: SegmentTask = TASK) -> tuple[MemoryFileSystem, SegmentTask]:
    """A disk that holds these bytes as the task's segment, and the task for all of them."""
    disk = MemoryFileSystem()
    disk.make_directory(task.directory)
    disk.write_bytes(f"{task.directory}/{file_name(task.segment_base_offset, LOG_SUFFIX)}", data)
    return disk, replace(task, end_position=len(data))


def rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Arrow's rows; times as microseconds, since Python's own end with the year 9999."""
    found = []
    for batch in batches:
        batch.validate(full=True)
        columns = {
            name: (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        found += pa.table(columns).to_pylist()
    return found


def read(data: bytes, task: SegmentTask = TASK, options: ReadOptions = ALL) -> list[dict[str, Any]]:
    """The rows of a segment with these bytes."""
    disk, whole = stored(data, task)
    return rows(record_batches(disk, whole, options))


def expected(
    data: bytes, task: SegmentTask = TASK, options: ReadOptions = ALL
) -> list[dict[str, Any]]:
    """Return what `read` should give, from `kbroker.record` alone."""
    found = []
    for position, header in headers(data):
        if header.is_control and not options.includes_control:
            continue
        if not header.is_control and _is_aborted(header, task):
            continue
        for record in any_records(data, position):
            if _is_wanted(record, task, options):
                row = _row(record, header, position, task)
                found.append({name: row[name] for name in options.columns})
    return found


def headers(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch."""
    position = 0
    while position < len(data):
        header = read_any_header(data, position)
        yield position, header
        position += header.size_bytes


def _is_aborted(header: BatchHeader, task: SegmentTask) -> bool:
    return header.is_transactional and any(
        header.producer_id == aborted.producer_id
        and aborted.first_offset <= header.last_offset <= aborted.last_offset
        for aborted in task.aborted
    )


def _is_wanted(record: Record, task: SegmentTask, options: ReadOptions) -> bool:
    earliest, latest = options.min_timestamp_ms, options.max_timestamp_ms
    return (
        task.start_offset <= record.offset < task.end_offset
        and (earliest is None or record.timestamp >= earliest)
        and (latest is None or record.timestamp <= latest)
    )


def _row(record: Record, header: BatchHeader, position: int, task: SegmentTask) -> dict[str, Any]:
    sequence = -1
    if header.base_sequence != -1:
        sequence = (header.base_sequence + record.offset - header.base_offset) & 0x7FFF_FFFF
    return {
        "key": record.key,
        "value": record.value,
        "topic": task.topic,
        "partition": task.partition,
        "offset": record.offset,
        "timestamp": record.timestamp * 1000 if _is_shown(record) else None,
        "timestampMs": None if _is_shown(record) else record.timestamp,
        "timestampType": header.timestamp_type if header.magic else -1,
        "headers": [
            {"key": java_text(key.encode("utf-8", "surrogateescape")), "value": value}
            for key, value in record.headers
        ]
        or None,
        "headerNames": _odd_names(record),
        "leaderEpoch": header.partition_leader_epoch,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "sequence": sequence,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "batchBaseOffset": (
            None if header.magic < 2 and header.compression else header.base_offset
        ),
        "compression": CODEC_NAMES[header.compression],
        "magic": header.magic,
        "directory": task.directory,
        "segment": task.segment_base_offset,
        "position": position,
    }


def _is_shown(record: Record) -> bool:
    return -(2**63) <= record.timestamp * 1000 < 2**63


def _odd_names(record: Record) -> list[bytes] | None:
    """The names of all headers where one is not UTF-8."""
    names = [name.encode("utf-8", "surrogateescape") for name, _ in record.headers]
    escaped = any("\udc80" <= letter <= "\udcff" for name, _ in record.headers for letter in name)
    return names if escaped else None
