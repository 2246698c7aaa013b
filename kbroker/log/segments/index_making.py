"""Rebuilds the offset and time index of a segment from its batches.

Law: entries come as often as appends would have made them. Index sizes may have been lowered since
the segment was written; a sparser index works as well.
"""

from __future__ import annotations

from kbroker.log.segments.offset_index import OffsetIndex
from kbroker.log.segments.time_index import TimeIndex, TimestampOffset
from kbroker.model import NO_TIMESTAMP
from kbroker.record.record_batch import BatchHeader


class IndexMaking:
    """Empties both indexes and fills them; `largest` is the newest time so far and its offset."""

    def __init__(
        self, offset_index: OffsetIndex, time_index: TimeIndex, interval_bytes: int
    ) -> None:
        offset_index.reset()
        time_index.reset()
        self.largest = TimestampOffset(NO_TIMESTAMP, offset_index.base_offset)
        self._offset_index = offset_index
        self._time_index = time_index
        self._interval_bytes = interval_bytes
        self._last_position = 0

    def enter(self, position: int, header: BatchHeader) -> None:
        """The next batch, which lies at `position`."""
        if header.max_timestamp > self.largest.timestamp:
            self.largest = TimestampOffset(header.max_timestamp, header.last_offset)
        if position - self._last_position > self._interval_bytes:
            if not self._offset_index.is_full and not self._time_index.is_full:
                self._offset_index.append(header.last_offset, position)
                self._time_index.maybe_append(*self.largest)
            self._last_position = position
