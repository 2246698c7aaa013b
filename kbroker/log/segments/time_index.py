"""Maps timestamps to offsets: an entry says that no earlier record of the segment has a larger
timestamp.

Sorted in both fields, append-only. Entry: int64 timestamp (Unix ms), int32 relative offset.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.log.disk.format import TIME_INDEX_ENTRY
from kbroker.log.segments.index_file import CorruptIndexError, IndexFile
from kbroker.model import NO_TIMESTAMP


class TimestampOffset(NamedTuple):
    """An entry: a timestamp (-1 for none), and the offset of the batch that brought it."""

    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    """The `.timeindex` file of a segment."""

    __slots__ = ()
    _entry = TIME_INDEX_ENTRY
    _offset_field = 1
    _spare_entries = 1  # for the roll

    @property
    def last_entry(self) -> TimestampOffset:
        """The newest entry; (-1, base offset) when there is none."""
        if not self.entry_count:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        timestamp, relative_offset = self._last
        return TimestampOffset(timestamp, self.base_offset + relative_offset)

    def maybe_append(self, timestamp: int, offset: int, *, closing: bool = False) -> None:
        """Note the largest timestamp, if it has grown; `closing` may use the spare entry."""
        count = self._count if self._loaded else self.entry_count
        assert closing or count < self.max_entries - 1, self.path
        relative_offset = offset - self.base_offset
        last_timestamp, last_relative_offset = self._last if count else (NO_TIMESTAMP, 0)
        if count:
            assert relative_offset >= last_relative_offset, (offset, self.last_entry, self.path)
            assert timestamp >= last_timestamp, (timestamp, self.last_entry, self.path)
        if timestamp > last_timestamp:
            self._append(timestamp, relative_offset)

    def lookup(self, target_timestamp: int) -> TimestampOffset:
        """The last entry not after the target, else (-1, base offset)."""
        found = self._floor_entry(target_timestamp)
        if found is None:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        timestamp, relative_offset = found
        return TimestampOffset(timestamp, self.base_offset + relative_offset)

    def sanity_check(self) -> None:
        """CorruptIndexError if size, first or last entry cannot be; others are not read."""
        self._check_file_size()
        if not self.entry_count:
            return
        timestamp, offset = self.last_entry
        if timestamp < self.entry(0)[0] or offset < self.base_offset:
            raise CorruptIndexError(
                f"{self.path}: last entry {timestamp}, {offset} is out of order"
            )
