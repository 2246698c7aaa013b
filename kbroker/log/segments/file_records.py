"""The data file of a segment: batches one after the other, exactly as they travel (FileMessageSet
in Kafka 0.8).

Law: `size_bytes` counts whole appended batches; the rest of a failed write is overwritten by the
next one, so that no reader meets half a batch. Appends and truncation belong to the event loop;
reads and `sync` may run on worker threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from errno import ENOENT, ESTALE
from struct import Struct
from typing import Final

from kbroker.log.disk.file_system import Bytes, File, FileSystem, StorageError
from kbroker.log.disk.format import DELETED_SUFFIX
from kbroker.log.disk.open_files import open_files_of
from kbroker.log.segments.segment_part import SegmentPart
from kbroker.log.segments.time_index import TimestampOffset
from kbroker.record.legacy_record import HEADER_SIZE_UP_TO_MAGIC, read_any_header
from kbroker.record.message_stream import MIN_LENGTH
from kbroker.record.record_batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader

# First offset, length, magic and delta of the last offset: all that a search needs of a header.
_unpack_extent: Final = Struct(">qi4xb6xi").unpack_from

# Headers are read in pieces of this size: the default index interval.
_HEADER_WINDOW_BYTES: Final = 4096
# Larger reads cost three times as much for each byte: the allocator maps them again each time.
_BATCH_WINDOW_BYTES: Final = 128 * 1024


class FileRecords(SegmentPart):
    """An append-only file of record batches; the descriptor is opened at first use.

    The owner alone closes it, on the thread that also sends slices: a descriptor that was asked for
    stays this file's until the owner's next call, to this file or another one (see `open_files`).
    """

    __slots__ = ("__weakref__", "_file", "_is_deleted", "_takes_appends", "cuts", "size_bytes")

    def __init__(self, file_system: FileSystem, path: str) -> None:
        super().__init__(file_system, path)
        self.size_bytes = _size_of(file_system, path)
        self.cuts = 0  # how often the end was cut off: slices made before hold other bytes now
        self._file: File | None = None
        self._is_deleted = False
        self._takes_appends = False  # something may come after the last batch

    def create(self) -> File:
        """Open the file for appends; a missing one is made."""
        self._takes_appends = True
        return self._file or self._open(create=True)

    def append(self, data: Bytes) -> int:
        """Write whole batches at the end; their position in the file."""
        position = self.size_bytes
        try:
            (self._file or self.create()).pwrite(data, position)
        except StorageError as error:
            if error.is_out_of_space:
                self.create().truncate(position)  # a whole batch in the torn tail would be found
            raise
        self.size_bytes = position + len(data)
        return position

    def slice(self, position: int, size: int) -> RecordsSlice:
        """A view of at most `size` bytes from `position`, cut at the end of the file."""
        return RecordsSlice(self, position, max(0, min(size, self.size_bytes - position)))

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`, cut at the end of the last batch."""
        size = min(size, self.size_bytes - position)
        return (self._file or self._open()).pread(size, position) if size > 0 else b""

    def fileno(self) -> int:
        """Descriptor of the data file. StorageError if that is gone."""
        return (self._file or self._open()).fileno()

    def headers(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of every whole batch between the two positions, of any message format.

        Stops at a batch that is cut off; KafkaError(CORRUPT_MESSAGE) at bytes that are not a
        header.
        """
        position = start
        limit = self.size_bytes if end is None else min(end, self.size_bytes)
        window = b""
        window_start = start
        window_size = _HEADER_WINDOW_BYTES
        while position + HEADER_SIZE_UP_TO_MAGIC <= limit:
            at = position - window_start
            if at + HEADER_SIZE > len(window):
                window = self.read(position, min(window_size, limit - position))
                window_start, at = position, 0
            header = read_any_header(window, at)
            size = header.size_bytes
            if position + size > limit:
                return
            yield position, header
            position += size
            # No use in reading after the header of a large batch.
            window_size = HEADER_SIZE if size > _HEADER_WINDOW_BYTES else _HEADER_WINDOW_BYTES

    def batches(
        self, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Yield headers as `headers` does, with each batch's bytes; the view is the caller's to
        keep.
        """
        position = start
        limit = self.size_bytes if end is None else min(end, self.size_bytes)
        window = memoryview(b"")
        window_start = start
        while position + HEADER_SIZE_UP_TO_MAGIC <= limit:
            at = position - window_start
            if at + HEADER_SIZE > len(window):
                window = memoryview(self.read(position, min(_BATCH_WINDOW_BYTES, limit - position)))
                window_start, at = position, 0
            header = read_any_header(window, at)
            size = header.size_bytes
            if position + size > limit:
                return
            if at + size > len(window):
                wanted = min(max(_BATCH_WINDOW_BYTES, size), limit - position)
                window = memoryview(self.read(position, wanted))
                window_start, at = position, 0
            yield position, header, window[at : at + size]
            position += size

    def find_offset(self, target_offset: int, start: int = 0) -> tuple[int, BatchHeader] | None:
        """The first batch from `start` on whose last offset is at or after the target."""
        window = self.read(start, _HEADER_WINDOW_BYTES)
        at, last = 0, len(window) - HEADER_SIZE
        while at <= last:
            offset, length, magic, delta = _unpack_extent(window, at)
            if magic != MAGIC or length < MIN_LENGTH[MAGIC]:
                break  # `headers` knows what it is
            size = length + LOG_OVERHEAD
            if offset + delta >= target_offset:
                if start + at + size > self.size_bytes:
                    return None
                return start + at, read_any_header(window, at)
            at += size
        for position, header in self.headers(start + at):
            if header.last_offset >= target_offset:
                return position, header
        return None

    def batch_at_time(
        self, timestamp: int, start: int, starting_offset: int
    ) -> tuple[BatchHeader, bytes] | None:
        """The first batch from `start` on whose header mentions a time and an offset not before
        these.
        """
        for position, header in self.headers(start):
            if header.max_timestamp >= timestamp and header.last_offset >= starting_offset:
                return header, self.read(position, header.size_bytes)
        return None

    def largest_timestamp(self, start: int = 0) -> TimestampOffset:
        """The largest timestamp of the batches from `start` on, with the last offset of the first
        batch that has it; else (-1, -1).
        """
        largest, offset = -1, -1
        for _, header in self.headers(start):
            if header.max_timestamp > largest:
                largest, offset = header.max_timestamp, header.last_offset
        return TimestampOffset(largest, offset)

    def preallocate(self, size: int) -> None:
        """Extend the file with a hole; `size_bytes` stays where the batches end."""
        self.create().truncate(max(size, self.size_bytes))

    def trim(self) -> None:
        """Cut what is after the last batch: a preallocated rest, or a failed write. Does nothing if
        nobody wrote.
        """
        if self._takes_appends:
            file = self.create()
            if file.size() != self.size_bytes:
                file.truncate(self.size_bytes)
            self._takes_appends = False

    def truncate_to(self, size: int) -> int:
        """Keep the first `size` bytes; the number of bytes that went."""
        assert 0 <= size <= self.size_bytes, (size, self.size_bytes, self.path)
        removed = self.size_bytes - size
        self.create().truncate(size)
        self.size_bytes = size
        if removed:
            self.cuts += 1
        return removed

    def sync(self) -> None:
        """Bring the content to the disk; may run on a worker thread. On a descriptor of its own:
        the owner may close the other one meanwhile.
        """
        self._file_system.sync(self.path)

    def close(self) -> None:
        """Give the descriptor back; the next use opens the file again."""
        if self._file is not None:
            open_files_of(self._file_system).closed(self)
            self._file.close()
            self._file = None

    def let_go(self) -> None:
        """Drop the file without closing it: who reads from it on another thread goes on."""
        self._file = None

    def delete(self) -> None:
        self.withdraw()
        super().delete()

    def withdraw(self) -> None:
        """Let slices fail: the file is about to be removed, and another one may get its name."""
        self.close()
        self._is_deleted = True

    def _open(self, *, create: bool = False) -> File:
        if self._is_deleted:
            raise StorageError(self.path, "read", ENOENT)
        open_files = open_files_of(self._file_system)
        try:
            file = self._file_system.open(self.path, create=create)
        except StorageError as error:
            if error.errno == ENOENT:  # its name is just being changed, on another thread
                file = self._file_system.open(self.path + DELETED_SUFFIX)
            elif error.is_out_of_descriptors and open_files.make_room():
                file = self._file_system.open(self.path, create=create)
            else:
                raise
        self._file = file
        open_files.opened(self)
        return file


def _size_of(file_system: FileSystem, path: str) -> int:
    """The size of a file, 0 if there is none."""
    try:
        return file_system.size(path)
    except StorageError as error:
        if error.errno != ENOENT:
            raise
        return 0


class RecordsSlice:
    """A stretch of a data file on its way to a socket.

    Law: it gives the bytes it was made for, or fails. It stays good while its segment is renamed,
    closed or rolled, and fails once the file was removed or cut.
    """

    __slots__ = ("_cuts", "_size", "position", "records")

    def __init__(self, records: FileRecords, position: int, size: int) -> None:
        self.records = records
        self.position = position
        self._size = size
        self._cuts = records.cuts

    def __len__(self) -> int:
        return self._size

    def fileno(self) -> int:
        """Descriptor of the data file, opened if need be; to be used before anything else is done.
        Raises OSError, as a socket does: to its sender the answer cannot be sent.
        """
        try:
            if self.records.cuts != self._cuts:
                self._check()
            return self.records.fileno()
        except StorageError as error:
            raise OSError(error.errno, str(error)) from error

    def read(self) -> bytes:
        """The bytes, all of them. StorageError if they are gone."""
        self._check()
        data = self.records.read(self.position, self._size)
        if len(data) != self._size:
            raise StorageError(self.records.path, "read", 0, "it ends before the wanted bytes")
        return data

    def _check(self) -> None:
        if self.records.cuts != self._cuts:
            raise StorageError(self.records.path, "read", ESTALE, "the log was truncated meanwhile")
