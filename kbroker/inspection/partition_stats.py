"""Figures of a log by the headers of its batches: nothing is unpacked, no CRC looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from errno import ENOENT

from kbroker.inspection.partition_files import sort_files
from kbroker.inspection.segment_scan import SegmentScan, tells_first_offset
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import log_file
from kbroker.model import NO_TIMESTAMP, TopicPartition
from kbroker.record.compression import CODEC_NAMES
from kbroker.record.record_batch import BatchHeader

_SUMS = (
    "partitions", "segments", "size_bytes", "batches", "records", "missing_offsets",
    "unreadable_bytes", "codec_bytes", "format_batches",
)  # fmt: skip


@dataclass(slots=True)
class LogStats:
    """A partition, or a topic as the sum of its partitions. Offsets inclusive, -1: none."""

    topic: str
    partition: int | None
    partitions: int = 1
    segments: int = 0
    size_bytes: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int = -1
    last_offset: int = -1
    first_timestamp: int = NO_TIMESTAMP
    last_timestamp: int = NO_TIMESTAMP
    missing_offsets: int = 0  # that compaction or aborted writing left between batches and records
    biggest_batch_bytes: int = 0
    unreadable_bytes: int = 0  # at the ends of segments, what is not a batch
    codec_bytes: Counter[str] = field(default_factory=Counter)
    format_batches: Counter[int] = field(default_factory=Counter)

    @property
    def average_batch_bytes(self) -> int:
        """0 without any batch."""
        return (self.size_bytes - self.unreadable_bytes) // self.batches if self.batches else 0

    def add(self, header: BatchHeader) -> None:
        """Count the batch of a header."""
        size = header.size_bytes
        self.batches += 1
        self.records += header.record_count
        self.codec_bytes[CODEC_NAMES.get(header.compression, str(header.compression))] += size
        self.format_batches[header.magic] += 1
        self.biggest_batch_bytes = max(self.biggest_batch_bytes, size)
        self._count_missing(header)
        if self.first_offset < 0:
            self.first_offset = header.base_offset
        self.last_offset = max(self.last_offset, header.last_offset)
        if header.max_timestamp >= 0:
            self.last_timestamp = max(self.last_timestamp, header.max_timestamp)
            first = header.max_timestamp
            if header.delete_horizon_ms is None and header.base_timestamp >= 0:
                first = min(first, header.base_timestamp)
            if self.first_timestamp < 0 or first < self.first_timestamp:
                self.first_timestamp = first

    def _count_missing(self, header: BatchHeader) -> None:
        self.missing_offsets += max(header.last_offset_delta + 1 - header.record_count, 0)
        if self.last_offset >= 0 and tells_first_offset(header):
            self.missing_offsets += max(header.base_offset - self.last_offset - 1, 0)

    def merge(self, other: LogStats) -> None:
        """Add another partition of the topic; offsets mean nothing then."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.biggest_batch_bytes = max(self.biggest_batch_bytes, other.biggest_batch_bytes)
        self.first_offset = self.last_offset = -1
        self.last_timestamp = max(self.last_timestamp, other.last_timestamp)
        known = [t for t in (self.first_timestamp, other.first_timestamp) if t >= 0]
        self.first_timestamp = min(known, default=NO_TIMESTAMP)


def partition_stats(
    file_system: FileSystem, directory: str, topic_partition: TopicPartition
) -> LogStats | None:
    """Read the headers of all batches of a partition, again if a running broker deletes or cleans
    segments meanwhile; None if it deletes the partition. Raises StorageError.
    """
    for skips_gone in (False, False, True):
        try:
            return _stats(file_system, directory, topic_partition, skips_gone=skips_gone)
        except StorageError as error:
            if error.errno != ENOENT:
                raise
            if not file_system.exists(directory):
                return None
    return None


def _stats(
    file_system: FileSystem, directory: str, topic_partition: TopicPartition, *, skips_gone: bool
) -> LogStats:
    stats = LogStats(topic_partition.topic, topic_partition.partition)
    for base_offset in sort_files(file_system.list(directory)).base_offsets:
        try:
            _count_segment(file_system, log_file(directory, base_offset), stats)
        except StorageError as error:
            if error.errno != ENOENT or not skips_gone:
                raise
    return stats


def _count_segment(file_system: FileSystem, path: str, stats: LogStats) -> None:
    scan = SegmentScan(file_system, path, checks_crc=False)
    for batch in scan.batches():
        stats.add(batch.header)
    stats.segments += 1
    stats.size_bytes += scan.size_bytes
    stats.unreadable_bytes += scan.tail.size_bytes if scan.tail else 0
