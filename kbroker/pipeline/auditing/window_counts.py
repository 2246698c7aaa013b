"""Counts how much was written in each hour or day: records, bytes and times of a partition by
windows of event time.

Counts come from batch headers, and a batch belongs to the window of its newest record: the header
has no other certain time. With a deep look each record belongs to its own window. Bytes and batches
always belong to that of the newest record. Markers of transactions are counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kbroker.model import NO_TIMESTAMP
from kbroker.record.record_batch import DELETE_HORIZON_BIT, TIMESTAMP_TYPE_BIT, BatchHeader

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
WINDOWS: Final = {"hour": HOUR_MS, "day": DAY_MS}

_BASE_IS_OTHER = TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT


@dataclass(slots=True)
class WindowCount:
    """One window of one partition. Timestamps in ms, -1: no record has one."""

    batches: int = 0
    records: int = 0
    markers: int = 0
    size_bytes: int = 0
    unpacked_bytes: int = 0  # of the records without headers of batches; 0 if not unpacked
    min_timestamp_ms: int = NO_TIMESTAMP
    max_timestamp_ms: int = NO_TIMESTAMP

    def add(self, other: WindowCount) -> None:
        """Add another part of the same window."""
        self.batches += other.batches
        self.records += other.records
        self.markers += other.markers
        self.size_bytes += other.size_bytes
        self.unpacked_bytes += other.unpacked_bytes
        self.time(other.min_timestamp_ms)
        self.time(other.max_timestamp_ms)

    def time(self, timestamp: int) -> None:
        """Widen the range of times by a timestamp."""
        if timestamp <= NO_TIMESTAMP:
            return
        self.max_timestamp_ms = max(self.max_timestamp_ms, timestamp)
        if timestamp < self.min_timestamp_ms or self.min_timestamp_ms == NO_TIMESTAMP:
            self.min_timestamp_ms = timestamp

    @property
    def compression_ratio(self) -> float | None:
        """The ratio of unpacked to stored bytes of records; None if none were unpacked."""
        if not self.unpacked_bytes or not self.size_bytes:
            return None
        return round(self.unpacked_bytes / self.size_bytes, 3)


Windows = dict[int, WindowCount]  # by start in ms; -1: records without time


class WindowCounter:
    """Counts the batches of one log; `by_record` if `records` will be called, too."""

    def __init__(self, window_ms: int, *, by_record: bool) -> None:
        self.windows: Windows = {}
        self._window_ms = window_ms
        self._by_record = by_record
        self._count = WindowCount()
        self._start = self._end = 0  # of the window that `_count` counts

    def batch(self, header: BatchHeader) -> None:
        """Count an intact batch."""
        newest = header.max_timestamp
        count = self._count if self._start <= newest < self._end else self._window(newest)
        count.batches += 1
        count.size_bytes += header.batch_length + 12
        if header.is_control:
            count.markers += header.record_count
        elif not self._by_record:
            count.records += header.record_count
            count.time(newest)
            if not header.attributes & _BASE_IS_OTHER and header.base_timestamp >= self._start:
                count.time(header.base_timestamp)

    def records(self, header: BatchHeader, size_bytes: int, timestamps: list[int]) -> None:
        """Count the records inside a batch."""
        self._window(header.max_timestamp).unpacked_bytes += size_bytes
        if header.is_control:
            return
        for timestamp in timestamps:
            inside = self._start <= timestamp < self._end
            count = self._count if inside else self._window(timestamp)
            count.records += 1
            count.time(timestamp)

    def _window(self, timestamp: int) -> WindowCount:
        start = NO_TIMESTAMP
        if timestamp > NO_TIMESTAMP:
            start = timestamp - timestamp % self._window_ms
        self._start = start
        self._end = start + self._window_ms if start >= 0 else 0
        self._count = self.windows.setdefault(start, WindowCount())
        return self._count


def merged_windows(parts: Iterable[Windows]) -> Windows:
    """Sum up parts of one partition, by rising start."""
    total: Windows = {}
    for part in parts:
        for start, count in part.items():
            total.setdefault(start, WindowCount()).add(count)
    return dict(sorted(total.items()))
