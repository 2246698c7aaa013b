"""Maps offsets to file positions: sparse, sorted, append-only.

Entry: int32 relative offset, int32 position.
"""

from __future__ import annotations

from kbroker.log.disk.format import OFFSET_INDEX_ENTRY
from kbroker.log.segments.index_file import CorruptIndexError, IndexFile


class OffsetIndex(IndexFile):
    """The `.index` file of a segment."""

    __slots__ = ()
    _entry = OFFSET_INDEX_ENTRY
    _offset_field = 0
    _spare_entries = 0

    @property
    def last_offset(self) -> int:
        """Offset of the newest entry; the base offset when there is none."""
        return self.base_offset + self._last[0] if self.entry_count else self.base_offset

    def append(self, offset: int, position: int) -> None:
        """Note that the batch whose last offset is `offset` starts at `position`."""
        relative_offset = offset - self.base_offset
        count = self._count if self._loaded else self.entry_count
        assert count < self.max_entries, self.path
        assert not count or relative_offset > self._last[0], (offset, self.last_offset, self.path)
        self._append(relative_offset, position)

    def lookup(self, target_offset: int) -> tuple[int, int]:
        """(offset, position) of the last entry at or before the target, else (base offset, 0)."""
        found = self._floor_entry(target_offset - self.base_offset)
        if found is None:
            return self.base_offset, 0
        relative_offset, position = found
        return self.base_offset + relative_offset, position

    def sanity_check(self) -> None:
        """CorruptIndexError if size or last entry cannot be; other entries are not read."""
        self._check_file_size()
        if self.entry_count and self.last_offset < self.base_offset:
            raise CorruptIndexError(
                f"{self.path}: last offset {self.last_offset} below base offset {self.base_offset}"
            )
