"""Rows for `kbroker log dump` out of segment files: one per batch, or one per record.

Law: damage is reported and skipped, so that the rest of a file can be read. Memory holds one batch
at a time, because files are large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from kbroker.config.config_values import MAX_LONG
from kbroker.decoding.internal_records import internal_decoder_of
from kbroker.decoding.record_rows import RECORD_COLUMNS, headers_of, text_of
from kbroker.errors import KafkaError
from kbroker.inspection.segment_scan import ScannedBatch, SegmentScan, TailKind
from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import offset_of
from kbroker.log.segments.batch_audit import BatchAudit, ReadableFile
from kbroker.model import TopicPartition
from kbroker.record import record_batch
from kbroker.record.compression import CODEC_NAMES
from kbroker.record.default_record import Record
from kbroker.record.readable_records import readable_records
from kbroker.record.record_batch import LOG_APPEND_TIME, MAGIC

Row = dict[str, Any]

BATCH_COLUMNS = (
    "file",
    "position",
    "size_bytes",
    "base_offset",
    "last_offset",
    "records",
    "crc_ok",
    "format",
    "codec",
    "leader_epoch",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "timestamp_type",
    "delete_horizon_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_sequence",
    "transactional",
    "control",
    "crc",
)
RECORD_ROW_COLUMNS = RECORD_COLUMNS


@dataclass(slots=True)
class DumpOptions:
    """The batches to show, and how; `broken` counts those that could not be shown."""

    first_offset: int | None = None  # inclusive, as `last_offset`
    last_offset: int | None = None
    decodes: bool = False
    complain: Callable[[str], None] = print
    broken: int = field(default=0, init=False)

    def wants(self, batch: ScannedBatch) -> bool:
        """Say whether any offset of the batch is asked for."""
        header = batch.header
        if self.first_offset is not None and header.last_offset < self.first_offset:
            return False
        return self.last_offset is None or header.base_offset <= self.last_offset

    def wants_offset(self, offset: int) -> bool:
        """Say whether this offset is asked for."""
        if self.first_offset is not None and offset < self.first_offset:
            return False
        return self.last_offset is None or offset <= self.last_offset

    def fail(self, sentence: str) -> None:
        """Say that something cannot be shown."""
        self.broken += 1
        self.complain(sentence)


def batch_rows(file_system: FileSystem, path: str, options: DumpOptions) -> Iterator[Row]:
    """Yield one row per batch of a segment file. Raises StorageError."""
    for _, batch in _batches(file_system, path, options):
        if options.wants(batch):
            yield _batch_row(path, batch)


def record_rows(
    file_system: FileSystem, path: str, topic_partition: TopicPartition, options: DumpOptions
) -> Iterator[Row]:
    """Yield one row per record of a segment file. Raises StorageError."""
    decoder = internal_decoder_of(topic_partition.topic) if options.decodes else None
    for scan, batch in _batches(file_system, path, options):
        if not options.wants(batch):
            continue
        where = f"{path}, position {batch.position}"
        if not batch.is_intact:
            options.fail(f"{where}: the CRC is wrong, the batch is left out")
            continue
        try:
            data = scan.read(batch)
            for record in readable_records(batch.header, data):
                if isinstance(record, KafkaError):
                    options.fail(f"{where}: a record cannot be read: {record.message}")
                elif options.wants_offset(record.offset):
                    row = _record_row(topic_partition, record)
                    if batch.header.is_control:
                        row["key"], row["value"] = _control(record)
                    elif decoder is not None:
                        row["key"], row["value"] = decoder(record.key, record.value)
                    yield row
        except KafkaError as error:
            options.fail(f"{where}: the records cannot be read: {error.message}")


def _batches(
    file_system: FileSystem, path: str, options: DumpOptions
) -> Iterator[tuple[SegmentScan, ScannedBatch]]:
    """Yield the batches of a segment file with the scan that reads them, also behind damage."""
    start: int | None = 0
    next_offset = offset_of(path.rpartition("/")[2]) or 0
    while start is not None:
        scan = SegmentScan(file_system, path, checks_crc=True, start=start)
        for batch in scan.batches():
            yield scan, batch
            if batch.is_intact:
                next_offset = batch.header.next_offset
        _say_tail(scan, options)
        start = _behind_tail(file_system, scan, next_offset)


def _behind_tail(file_system: FileSystem, scan: SegmentScan, next_offset: int) -> int | None:
    """Return where batches go on after a scan has stopped; None if they do not."""
    if scan.tail is None or scan.tail.kind is TailKind.ZEROS:
        return None
    with closing(file_system.open(scan.path, read_only=True)) as file:
        audit = BatchAudit(ReadableFile(file), scan.size_bytes, MAX_LONG)
        position = audit.next_sound(scan.tail.position, next_offset, ())
    return position if position < scan.size_bytes else None


def _batch_row(path: str, batch: ScannedBatch) -> Row:
    header = batch.header
    is_new = header.magic == MAGIC
    horizon = header.delete_horizon_ms if is_new else None
    stamped = header.timestamp_type == LOG_APPEND_TIME
    return {
        "file": path.rpartition("/")[2],
        "position": batch.position,
        "size_bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "crc_ok": batch.is_intact,
        "format": header.magic,
        "codec": CODEC_NAMES.get(header.compression, str(header.compression)),
        "leader_epoch": header.partition_leader_epoch,
        "base_timestamp_ms": header.base_timestamp,
        "max_timestamp_ms": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if stamped else "CreateTime",
        "delete_horizon_ms": horizon,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
    }


def _record_row(topic_partition: TopicPartition, record: Record) -> Row:
    return {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": text_of(record.key),
        "value": text_of(record.value),
        "headers": headers_of(record.headers),
    }


def _control(record: Record) -> tuple[Any, Any]:
    marker = record_batch.read_control(record)
    if marker is None:
        return text_of(record.key), text_of(record.value)
    kind = "commit" if marker.is_commit else "abort"
    return {"control": kind}, {"coordinator_epoch": marker.coordinator_epoch}


def _say_tail(scan: SegmentScan, options: DumpOptions) -> None:
    tail = scan.tail
    if tail is None:
        return
    sentence = f"{scan.path}, position {tail.position}: {tail.reason}"
    if tail.kind is TailKind.ZEROS:
        options.complain(sentence)
    else:
        options.fail(sentence)
