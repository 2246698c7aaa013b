"""The segments of one log, in order of their base offsets, and the search among them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from kbroker.log.disk.format import MAX_RELATIVE_OFFSET
from kbroker.log.segments.log_segment import LogSegment


class LogSegments:
    """A sorted list of segments, never empty once the log is loaded. Owned by its log."""

    __slots__ = ("_aborting", "_base_offsets", "_segments", "active")

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._segments: list[LogSegment] = []
        self._base_offsets: list[int] = []
        self._aborting: list[LogSegment] | None = None  # all but the active one; None: not known
        self.active: LogSegment  # the last one, which takes the appends
        for segment in segments:
            self.add(segment)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def __getitem__(self, index: int) -> LogSegment:
        return self._segments[index]

    @property
    def base_offsets(self) -> list[int]:
        return list(self._base_offsets)

    @property
    def size_bytes(self) -> int:
        """Size of all segments together, without their indexes."""
        return sum(segment.size_bytes for segment in self._segments)

    def add(self, segment: LogSegment) -> LogSegment | None:
        """Insert a segment; hands back the one with the same base offset that it replaces."""
        index = bisect_left(self._base_offsets, segment.base_offset)
        replaced = None
        if index < len(self) and self._base_offsets[index] == segment.base_offset:
            replaced = self._segments[index]
            self._segments[index] = segment
        else:
            self._segments.insert(index, segment)
            self._base_offsets.insert(index, segment.base_offset)
        self._aborting = None
        self.active = self._segments[-1]
        return replaced

    def remove(self, segment: LogSegment) -> None:
        """Take a segment out; its files stay."""
        index = bisect_left(self._base_offsets, segment.base_offset)
        assert self._segments[index] is segment, segment.base_offset
        del self._segments[index], self._base_offsets[index]
        self._aborting = None
        if self._segments:
            self.active = self._segments[-1]

    def floor_index(self, offset: int) -> int:
        """Index of the last segment whose base offset is not above `offset`; -1 without one."""
        return bisect_right(self._base_offsets, offset) - 1

    def after(self, segment: LogSegment) -> LogSegment:
        """The segment after one that is not the last."""
        return self._segments[bisect_right(self._base_offsets, segment.base_offset)]

    def end_bound(self, segment: LogSegment) -> int:
        """Offsets in `segment` are below this: where the next one begins, or what it can reach."""
        if segment is self.active:
            return segment.base_offset + MAX_RELATIVE_OFFSET + 1
        return self.after(segment).base_offset

    def from_offset(self, offset: int) -> list[LogSegment]:
        """The segments that may hold `offset` or anything after it."""
        return self._segments[max(0, self.floor_index(offset)) :]

    def between(self, start_offset: int, end_offset: int) -> list[LogSegment]:
        """The segments that may hold offsets from `start_offset` to `end_offset` (exclusive)."""
        end = bisect_left(self._base_offsets, end_offset)
        return self._segments[max(0, self.floor_index(start_offset)) : end]

    def with_aborted(self, start_offset: int) -> list[LogSegment]:
        """The segments from the one at `start_offset` on that note aborted transactions: few, often
        none.
        """
        if self._aborting is None:
            inactive = self._segments[:-1]
            self._aborting = [s for s in inactive if s.transaction_index.entries]
        newest = [self.active] if self.active.transaction_index.entries else []
        if not self._aborting:
            return newest
        return [*(s for s in self._aborting if s.base_offset >= start_offset), *newest]

    def move(self, old_directory: str, new_directory: str) -> None:
        """Follow a rename of the partition's directory; descriptors must have been given back."""
        for segment in self._segments:
            segment.move(old_directory, new_directory)
