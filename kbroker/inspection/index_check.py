"""Compares index entries with the batches they mention, while a segment is walked once from its
start. Bytes and headers in, problems out.

Law: an entry is wrong if a look-up that follows it would skip records, or if no append can have
written it. A coarse index is fine: entries may be missing between two others.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from kbroker.inspection.batch_check import Problem
from kbroker.inspection.finding_codes import FindingCode
from kbroker.inspection.segment_scan import ScannedBatch
from kbroker.log.disk.format import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kbroker.model import NO_TIMESTAMP

_NEVER = 2**63
_ZEROS = bytes(64 * 1024)


def used_entries(data: bytes, entry: Struct) -> int:
    """Count the entries before the zeros of an index that has its full size, most often 10 MiB.

    No entry is all zero: the first batch of a segment is not indexed by position, and an entry of
    timestamp 0 and offset 0 comes only in a segment of 1970, which does not miss it.
    """
    end = len(data) - len(data) % entry.size
    while data.endswith(_ZEROS, 0, end):
        end -= len(_ZEROS)
    start = max(end - len(_ZEROS), 0)
    used = start + len(data[start:end].rstrip(b"\0"))
    return -(-used // entry.size)


class _IndexCheck:
    """The entries of an index in turn, as far as the walk has come."""

    def __init__(
        self, data: bytes, entry: Struct, base_offset: int, size_bytes: int | None
    ) -> None:
        self.entry_count = used_entries(data, entry)
        end = self.entry_count * entry.size
        self.has_zero_tail = end < (len(data) if size_bytes is None else size_bytes)
        self._base_offset = base_offset
        self._entries = iter(entry.iter_unpack(data[:end]))
        self._next = next(self._entries, None)

    def _left(self) -> tuple[tuple[int, ...], ...]:
        return () if self._next is None else (self._next, *self._entries)


class OffsetIndexCheck(_IndexCheck):
    """The entries of an `.index` file: relative offset, position."""

    def __init__(self, data: bytes, base_offset: int, size_bytes: int | None = None) -> None:
        """`size_bytes` of the file, if `data` is without the hole at its end."""
        super().__init__(data, OFFSET_INDEX_ENTRY, base_offset, size_bytes)
        self._awaited: int | None = None  # offset of an entry whose batches came in one append
        self._previous = (-1, -1)
        self.due_position = self._due()  # batches that begin before it need no look

    def _due(self) -> int:
        if self._awaited is not None:
            return -1
        return self._next[1] if self._next is not None else _NEVER

    def batch(self, batch: ScannedBatch, previous_last_offset: int) -> Iterator[Problem]:
        """Check the entries for this batch; `previous_last_offset` is that of the batch before."""
        if self._awaited is not None and batch.header.last_offset >= self._awaited:
            if batch.header.last_offset != self._awaited:
                yield Problem(
                    FindingCode.INDEX_ENTRY, f"no batch ends with the entry {self._awaited}"
                )
            self._awaited = None
        while self._next is not None and self._next[1] <= batch.position:
            relative_offset, position = self._next
            yield from self._order(relative_offset, position)
            offset = self._base_offset + relative_offset
            last_offset = batch.header.last_offset
            if position != batch.position:
                yield Problem(
                    FindingCode.INDEX_ENTRY,
                    f"the entry {offset} points to {position}, where no batch begins",
                )
            elif offset <= previous_last_offset or offset < batch.header.base_offset:
                yield Problem(
                    FindingCode.INDEX_ENTRY,
                    f"the entry {offset} points to {position}, where a batch begins with "
                    f"{batch.header.base_offset}",
                )
            elif offset < last_offset:
                yield Problem(
                    FindingCode.INDEX_ENTRY,
                    f"the entry {offset} points to {position}, to a batch that ends with "
                    f"{last_offset}",
                )
            elif offset > last_offset:
                self._awaited = offset
            self._next = next(self._entries, None)
        self.due_position = self._due()

    def end(self, position: int, last_offset: int) -> Iterator[Problem]:
        """Check the entries left when the walk has ended at `position`, after `last_offset`."""
        if self._awaited is not None:
            yield Problem(
                FindingCode.INDEX_BEYOND, f"the entry {self._awaited} is after the last batch"
            )
        for relative_offset, entry_position in self._left():
            yield from self._order(relative_offset, entry_position)
            yield Problem(
                FindingCode.INDEX_BEYOND,
                f"the entry {self._base_offset + relative_offset} points to {entry_position}, "
                f"the last batch ends at {position} with offset {last_offset}",
            )

    def _order(self, relative_offset: int, position: int) -> Iterator[Problem]:
        before = self._previous
        self._previous = (relative_offset, position)
        if relative_offset <= before[0] or position <= before[1]:
            yield Problem(
                FindingCode.INDEX_ORDER,
                f"the entry {relative_offset}, {position} follows {before[0]}, {before[1]}",
            )


class TimeIndexCheck(_IndexCheck):
    """The entries of a `.timeindex` file: timestamp, relative offset."""

    def __init__(
        self,
        data: bytes,
        base_offset: int,
        size_bytes: int | None = None,
        *,
        is_there: bool = True,
    ) -> None:
        super().__init__(data, TIME_INDEX_ENTRY, base_offset, size_bytes)
        self.is_there = is_there
        self._previous = (NO_TIMESTAMP, -1)
        self.newest = NO_TIMESTAMP  # of the batches so far
        self.due_offset = self._due()  # batches that end before it only move `newest`

    def _due(self) -> int:
        return self._base_offset + self._next[1] if self._next is not None else _NEVER

    def batch(self, batch: ScannedBatch) -> Iterator[Problem]:
        """Check the entries whose offset is reached with this batch."""
        header = batch.header
        before = self.newest
        self.newest = max(before, header.max_timestamp)
        while self._next is not None and self._base_offset + self._next[1] <= header.last_offset:
            timestamp, relative_offset = self._next
            yield from self._order(timestamp, relative_offset)
            offset = self._base_offset + relative_offset
            if offset < header.base_offset:
                newest, exact = before, False
            else:
                newest, exact = self.newest, True
            if timestamp < newest or (exact and timestamp > newest):
                yield Problem(
                    FindingCode.TIMEINDEX_ENTRY,
                    f"the entry says that up to offset {offset} the newest timestamp is "
                    f"{timestamp}, it is {newest}",
                )
            self._next = next(self._entries, None)
        self.due_offset = self._due()

    def end(self, last_offset: int, *, is_closed: bool) -> Iterator[Problem]:
        """Check the entries left at the end; the index of a closed segment names its newest
        timestamp.
        """
        left = self._left()
        for timestamp, relative_offset in left:
            yield from self._order(timestamp, relative_offset)
            yield Problem(
                FindingCode.TIMEINDEX_BEYOND,
                f"the entry {timestamp}, {self._base_offset + relative_offset} is after the last "
                f"offset, {last_offset}",
            )
        if is_closed and not left and self._previous[0] < self.newest:
            yield Problem(
                FindingCode.TIMEINDEX_SHORT,
                f"the last entry is {self._previous[0]}, the newest timestamp of the segment "
                f"{self.newest}",
            )

    def _order(self, timestamp: int, relative_offset: int) -> Iterator[Problem]:
        before = self._previous
        self._previous = (timestamp, relative_offset)
        if timestamp < before[0] or relative_offset < before[1]:
            yield Problem(
                FindingCode.TIMEINDEX_ORDER,
                f"the entry {timestamp}, {relative_offset} follows {before[0]}, {before[1]}",
            )
