"""A file of fixed-size, sorted entries: what offset index and time index have in common.

While its segment is active the file is pre-sized (sparse, zeros after the last entry) and new
entries stay in memory until `write_out`; closing or rolling trims the file to its entries. Of the
other entries, memory keeps the first one of each page, so that a search reads one page; the pages
that were read last stay for the next searches, of all indexes together. An index holds no
descriptor and no mapping between calls: thousands of idle partitions cost nothing. Entries lost in
a crash are rebuilt by recovery, which reads every segment that was not flushed.

Owned by the event loop, except `sync`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from contextlib import closing
from functools import cache
from struct import Struct
from typing import ClassVar, Final

from kbroker.log.disk.file_system import Bytes, FileSystem, StorageError
from kbroker.log.segments.segment_part import SegmentPart

_WRITE_OUT_ENTRIES: Final = 1024  # unwritten entries that are still kept in memory
_KEEP_ENTRIES: Final = 512  # newest entries that stay in memory after they were written
_PAGE_ENTRIES: Final = 256  # written entries that a search reads at once
_KEPT_PAGES: Final = 1024  # of all indexes together; each is 2 or 3 KB, of 256 places in a log
# What an index that nobody used holds, never written to: most of thousands of them are idle.
_NO_TAIL: Final = bytearray()
_NO_PAGES: Final = array("q")


class CorruptIndexError(Exception):
    """An index file whose content cannot be; recovery rebuilds it from the segment."""


def floor_slot(buffer: Bytes, entry: Struct, count: int, field: int, target: int) -> int:
    """The last of `count` sorted entries whose `field` is <= target; -1 when all are larger."""
    low, high = 0, count
    size = entry.size
    unpack = entry.unpack_from
    while low < high:
        middle = (low + high) // 2
        if unpack(buffer, middle * size)[field] <= target:
            low = middle + 1
        else:
            high = middle
    return low - 1


@cache
def _entries_within(max_size_bytes: int, entry_size: int, spare_entries: int = 0) -> int:
    """Asked for by all indexes of a topic, so they share the number."""
    return max_size_bytes // entry_size - spare_entries


class IndexFile(SegmentPart):
    """Entries in a file, the newest of them in memory too. Loaded at first use."""

    __slots__ = (
        "_count",
        "_full_at",
        "_last",
        "_loaded",
        "_page_starts",
        "_tail",
        "_tail_first",
        "_written",
        "base_offset",
        "max_entries",
        "max_size_bytes",
        "room",
    )
    _entry: ClassVar[Struct]
    _offset_field: ClassVar[int]  # of an entry
    _spare_entries: ClassVar[int]  # kept free until the segment is closed

    def __init__(
        self, file_system: FileSystem, path: str, base_offset: int, max_size_bytes: int
    ) -> None:
        super().__init__(file_system, path)
        self.base_offset = base_offset
        self.max_size_bytes = max_size_bytes
        self.max_entries = _entries_within(max_size_bytes, self._entry.size)
        self._full_at = _entries_within(max_size_bytes, self._entry.size, self._spare_entries)
        self._loaded = False
        self._count = self._written = self._tail_first = 0
        self.room = 0  # entries that certainly fit; every append asks
        self._tail = _NO_TAIL
        self._page_starts = _NO_PAGES
        self._last: tuple[int, ...] = ()

    @property
    def entry_count(self) -> int:
        if not self._loaded:
            self._load()
        return self._count

    @property
    def is_full(self) -> bool:
        """No room for another entry but those kept for the end: the segment rolls."""
        self.room = max(0, self._full_at - self.entry_count)
        return not self.room

    def entry(self, slot: int) -> tuple[int, ...]:
        """The entry at `slot`, as it is in the file."""
        assert 0 <= slot < self.entry_count, (slot, self._count)
        if slot >= self._tail_first:
            return self._entry.unpack_from(self._tail, (slot - self._tail_first) * self._entry.size)
        return self._entry.unpack(self._read(slot, 1))

    def entries(self) -> list[tuple[int, ...]]:
        """All entries, as they are in the file."""
        count = self.entry_count
        head = self._read(0, self._tail_first) if self._tail_first else b""
        return list(self._entry.iter_unpack(head + self._tail))[:count]

    def preallocate(self) -> None:
        """Give the file its size while the segment is active."""
        self.write_out()
        self._file_system.truncate(self.path, self.max_entries * self._entry.size)

    def trim(self) -> None:
        """Write everything and cut the file after the last entry."""
        self.write_out()
        self._file_system.truncate(self.path, self._count * self._entry.size)

    def write_out(self) -> None:
        """Bring the entries that are only in memory into the file; no fsync."""
        if self.entry_count == self._written:
            return
        size = self._entry.size
        data = self._tail[(self._written - self._tail_first) * size :]
        with closing(self._file_system.open(self.path, create=True)) as file:
            file.pwrite(data, self._written * size)
        self._written = self._count

    def reset(self) -> None:
        """Drop all entries, whatever the file holds."""
        self._file_system.truncate(self.path, 0)
        self._forget()
        self._loaded = True

    def truncate_to(self, offset: int) -> None:
        """Drop entries for `offset` and all after it."""
        relative_offset = offset - self.base_offset
        self._truncate_entries(self._count_up_to(self._offset_field, relative_offset - 1))

    def close(self) -> None:
        """Trim, unless nobody has used the index; it can still be read."""
        if self._loaded:
            self.trim()

    def _append(self, *values: int) -> None:
        if self._tail is _NO_TAIL:
            self._tail = bytearray()
        self._tail += self._entry.pack(*values)
        self._last = values
        self._count += 1
        self.room -= 1
        if self._count - self._tail_first >= _WRITE_OUT_ENTRIES:
            try:
                self.write_out()
            except StorageError as error:
                if not error.is_passing:
                    raise
                return  # the records are written: these entries wait in memory for the next one
            drop = self._count - self._tail_first - _KEEP_ENTRIES
            del self._tail[: drop * self._entry.size]
            self._tail_first += drop

    def _floor_entry(self, target: int) -> tuple[int, ...] | None:
        """The last entry whose first field is <= target; at most one page of the file is read."""
        if not (self._count if self._loaded else self.entry_count):
            return None
        if self._last[0] <= target:
            return self._last
        entry = self._entry
        slot = floor_slot(self._tail, entry, self._count - self._tail_first, 0, target)
        if slot >= 0:
            return entry.unpack_from(self._tail, slot * entry.size)
        page = bisect_right(self._first_of_pages(), target) - 1
        if page < 0:
            return None
        first = page * _PAGE_ENTRIES
        count = min(_PAGE_ENTRIES, self._tail_first - first)
        data = self._page(first, count)
        slot = floor_slot(data, entry, count, 0, target)
        return entry.unpack_from(data, slot * entry.size)

    def _page(self, first: int, count: int) -> bytes:
        """The entries of a page, read unless that was done lately."""
        key = self, first
        data = _pages.get(key, b"")
        if len(data) != count * self._entry.size:  # the last page grows
            data = self._read(first, count)
            _pages.pop(key, None)
            _pages[key] = data
            while len(_pages) > _KEPT_PAGES:
                _pages.popitem(last=False)
        return data

    def _first_of_pages(self) -> array[int]:
        """The first field of the first entry of every page that is no longer in memory."""
        known = self._page_starts
        missing = range(len(known) * _PAGE_ENTRIES, self._tail_first, _PAGE_ENTRIES)
        if missing:
            if known is _NO_PAGES:
                known = self._page_starts = array("q")
            unpack, size = self._entry.unpack_from, self._entry.size
            with self._file_system.map(self.path) as buffer:
                known.extend([unpack(buffer, slot * size)[0] for slot in missing])
        return known

    def _read(self, first: int, count: int) -> bytes:
        with closing(self._file_system.open(self.path, read_only=True)) as file:
            return file.pread(count * self._entry.size, first * self._entry.size)

    def _count_up_to(self, field: int, target: int) -> int:
        count = self.entry_count
        if not count:
            return 0
        self.write_out()
        with self._file_system.map(self.path) as buffer:
            return floor_slot(buffer, self._entry, count, field, target) + 1

    def _truncate_entries(self, count: int) -> None:
        if count >= self.entry_count:
            return
        self.write_out()
        self._file_system.truncate(self.path, count * self._entry.size)
        self._forget()
        self._load()

    def _check_file_size(self) -> None:
        size = self._file_system.size(self.path)
        if size % self._entry.size:
            raise CorruptIndexError(
                f"{self.path}: {size} bytes are not a multiple of {self._entry.size}"
            )

    def _forget(self) -> None:
        self._loaded = False
        self._count = self._written = self._tail_first = self.room = 0
        self._tail = _NO_TAIL
        self._last = ()
        self._page_starts = _NO_PAGES
        for key in list(_pages):  # in one step, as logs that are loaded may add some
            if key[0] is self:
                _pages.pop(key, None)

    def _load(self) -> None:
        if self._file_system.exists(self.path):
            count = self._file_system.size(self.path) // self._entry.size
            if count:  # where this is refused, nothing is known yet
                self._last = self._entry.unpack(self._read(count - 1, 1))
            self._count = self._written = self._tail_first = count
        self._loaded = True


# The pages that were read last, by index and first slot, the newest at the end. Logs that are
# loaded at the same time share it: each step of theirs is one of the dictionary's.
_pages: OrderedDict[tuple[IndexFile, int], bytes] = OrderedDict()
