"""Finds batches in a segment by its offset index.

Law: an index is a hint. Each entry is checked against the header of the batch it leads to, and if
the two disagree, or the disk refuses the index, the search begins at the start of the file. Zeros
after the last entry, as a running or killed broker leaves them, are not entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from struct import Struct
from typing import NamedTuple

from kbroker.errors import KafkaError
from kbroker.inspection.index_check import used_entries
from kbroker.inspection.segment_scan import SegmentScan, Tail, tells_first_offset
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import (
    OFFSET_INDEX_ENTRY,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_ENTRY,
    TIME_INDEX_SUFFIX,
    file_name,
    log_file,
)
from kbroker.log.segments.index_file import floor_slot
from kbroker.pipeline.logdir.directory.disk_refusal import is_refusal
from kbroker.record.legacy_record import read_any_header
from kbroker.record.record_batch import HEADER_SIZE, BatchHeader


class SplitPoint(NamedTuple):
    """A place between two batches; all records from `offset` on come after `position`."""

    position: int
    offset: int


class SegmentLookup:
    """One segment of a partition directory."""

    def __init__(self, file_system: FileSystem, directory: str, base_offset: int) -> None:
        self._file_system = file_system
        self._directory = directory
        self.base_offset = base_offset
        self.path = log_file(directory, base_offset)
        self._index: bytes | None = None

    def floor(self, offset: int) -> int:
        """A position where a batch begins, with nothing at or after `offset` before it."""
        entries, count = self._entries()
        slot = floor_slot(entries, OFFSET_INDEX_ENTRY, count, 0, offset - self.base_offset)
        if slot < 0:
            return 0
        return self._witnessed(slot).position

    def last(self) -> int:
        return self.floor(self.base_offset + 2**31)

    def end(self) -> tuple[int, Tail | None]:
        """The end offset by the headers of the batches, and what follows the last one. Raises
        StorageError.
        """
        end_offset = self.base_offset
        scan = self._scan(self.last())
        for batch in scan.batches():
            end_offset = batch.header.next_offset
        return end_offset, scan.tail

    def cuts(self, start: int, end: int, step_bytes: int) -> Iterator[SplitPoint]:
        """Places that part (start, end) into pieces of about `step_bytes`."""
        entries, count = self._entries()
        target = start + step_bytes
        while target < end:
            slot = floor_slot(entries, OFFSET_INDEX_ENTRY, count, 1, target - 1) + 1
            if slot >= count:
                return
            cut = self._witnessed(slot)
            if start < cut.position < end:
                yield cut
                target = cut.position
            target += step_bytes

    def end_position(self, end_offset: int) -> int:
        """The position of the first batch that holds no record before `end_offset`; the end of the
        file if it breaks off before that offset: whoever reads so far meets the damage.
        """
        position = self.floor(end_offset - 1)
        next_offset = self.base_offset
        scan = self._scan(position)
        for batch in scan.batches():
            header = batch.header
            if next_offset >= end_offset:
                return position
            if tells_first_offset(header) and header.base_offset >= end_offset:
                return position
            position = batch.position + header.size_bytes
            next_offset = header.next_offset
        is_cut = scan.tail is not None and next_offset < end_offset
        return scan.size_bytes if is_cut else position

    def largest_timestamp(self) -> int | None:
        """The newest time of a closed segment by its time index; None if that cannot be trusted."""
        data = self._read_index(TIME_INDEX_SUFFIX, TIME_INDEX_ENTRY)
        if len(data) < TIME_INDEX_ENTRY.size:
            return None
        timestamp, relative = TIME_INDEX_ENTRY.unpack_from(data, len(data) - TIME_INDEX_ENTRY.size)
        offset = self.base_offset + relative
        for batch in self._scan(self.floor(offset)).batches():
            if batch.header.last_offset >= offset:
                is_witnessed: bool = batch.header.max_timestamp == timestamp
                return timestamp if is_witnessed else None
        return None

    def header_at(self, position: int) -> BatchHeader | None:
        """Return the header at a position; None if there is none. Raises StorageError."""
        if position < 0:
            return None
        try:
            return read_any_header(header_bytes(self._file_system, self.path, position))
        except KafkaError:
            return None

    def _scan(self, position: int) -> SegmentScan:
        return SegmentScan(self._file_system, self.path, checks_crc=False, start=position)

    def _witnessed(self, slot: int) -> SplitPoint:
        """Return the entry's position if the batch there confirms it; else the start of the
        segment.
        """
        entries, _ = self._entries()
        relative, position = OFFSET_INDEX_ENTRY.unpack_from(entries, slot * OFFSET_INDEX_ENTRY.size)
        header = self.header_at(position)
        if (
            header is not None
            and tells_first_offset(header)
            and header.base_offset <= self.base_offset + relative <= header.last_offset
        ):
            return SplitPoint(position, header.base_offset)
        return SplitPoint(0, self.base_offset)

    def _entries(self) -> tuple[bytes, int]:
        if self._index is None:
            self._index = self._read_index(OFFSET_INDEX_SUFFIX, OFFSET_INDEX_ENTRY)
        return self._index, len(self._index) // OFFSET_INDEX_ENTRY.size

    def _read_index(self, suffix: str, entry: Struct) -> bytes:
        path = f"{self._directory}/{file_name(self.base_offset, suffix)}"
        data = readable_bytes(self._file_system, path)
        return data[: used_entries(data, entry) * entry.size]


def readable_bytes(file_system: FileSystem, path: str) -> bytes:
    """The bytes of a file that a log can be read without; none if it is not there, or the disk
    refuses it. Raises StorageError.
    """
    try:
        return file_system.read_written(path) if file_system.exists(path) else b""
    except StorageError as error:
        if is_refusal(error):
            return b""
        raise


def header_bytes(file_system: FileSystem, path: str, position: int) -> bytes:
    """The bytes of the header at a position, fewer at the end of the file. Raises StorageError."""
    with closing(file_system.open(path, read_only=True)) as file:
        return file.pread(HEADER_SIZE, position)
