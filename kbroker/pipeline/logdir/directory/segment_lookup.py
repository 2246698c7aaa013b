"""Finds batches in a segment by its offset index.

Law: an index is a hint. What it says is checked against the header of the batch it leads to, and
where the two disagree, or the disk refuses the index, the search begins at the start of the file.
Zeros after the last entry, as a running or killed broker leaves them, are not entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kbroker.errors import KafkaError
from kbroker.inspection.segment_scan import SegmentScan
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
from kbroker.record.compression import NONE
from kbroker.record.legacy_record import read_any_header
from kbroker.record.record_batch import HEADER_SIZE, MAGIC, BatchHeader

_ZEROS = bytes(64 * 1024)


class Cut(NamedTuple):
    """A place between two batches; all records from `offset` on come after `position`."""

    position: int
    offset: int


def tells_first_offset(header: BatchHeader) -> bool:
    """False for wrappers of the old formats, which carry the offset of their last message."""
    return header.magic == MAGIC or header.compression == NONE


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
        """The position of the last batch that the index knows."""
        return self.floor(self.base_offset + 2**31)

    def cuts(self, start: int, end: int, step_bytes: int) -> Iterator[Cut]:
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
        """Where the first batch begins that holds no record before `end_offset`; the end of the
        file where it breaks off before that offset: whoever reads so far meets the damage.
        """
        position = self.floor(end_offset - 1)
        next_offset = self.base_offset
        scan = SegmentScan(self._file_system, self.path, checks_crc=False, start=position)
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
        """Of the records of a closed segment, as its time index says; None if it is not to be
        trusted.
        """
        data = self._read_index(TIME_INDEX_SUFFIX, TIME_INDEX_ENTRY.size)
        if len(data) < TIME_INDEX_ENTRY.size:
            return None
        timestamp, relative = TIME_INDEX_ENTRY.unpack_from(data, len(data) - TIME_INDEX_ENTRY.size)
        offset = self.base_offset + relative
        position = self.floor(offset)
        for batch in SegmentScan(
            self._file_system, self.path, checks_crc=False, start=position
        ).batches():
            if batch.header.last_offset >= offset:
                is_witnessed: bool = batch.header.max_timestamp == timestamp
                return timestamp if is_witnessed else None
        return None

    def header_at(self, position: int) -> BatchHeader | None:
        """Return the header at a position; None if there is none. Raises StorageError."""
        if position < 0:
            return None
        file = self._file_system.open(self.path, read_only=True)
        try:
            return read_any_header(file.pread(HEADER_SIZE, position))
        except KafkaError:
            return None
        finally:
            file.close()

    def _witnessed(self, slot: int) -> Cut:
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
            return Cut(position, header.base_offset)
        return Cut(0, self.base_offset)

    def _entries(self) -> tuple[bytes, int]:
        if self._index is None:
            self._index = self._read_index(OFFSET_INDEX_SUFFIX, OFFSET_INDEX_ENTRY.size)
        return self._index, len(self._index) // OFFSET_INDEX_ENTRY.size

    def _read_index(self, suffix: str, entry_size: int) -> bytes:
        path = f"{self._directory}/{file_name(self.base_offset, suffix)}"
        data = readable_bytes(self._file_system, path)
        count = -(-_used_bytes(data) // entry_size)
        return data[: count * entry_size]


def readable_bytes(file_system: FileSystem, path: str) -> bytes:
    """A file without which its log can be read, too: nothing if it is not there, or the disk
    refuses it. Raises StorageError.
    """
    try:
        return file_system.read_written(path) if file_system.exists(path) else b""
    except StorageError as error:
        if is_refusal(error):
            return b""
        raise


def _used_bytes(data: bytes) -> int:
    """How much stands before the zeros at the end: of 10 MiB, most often, in an index in use."""
    end = len(data)
    while data.endswith(_ZEROS, 0, end):
        end -= len(_ZEROS)
    start = max(end - len(_ZEROS), 0)
    return start + len(data[start:end].rstrip(b"\0"))
