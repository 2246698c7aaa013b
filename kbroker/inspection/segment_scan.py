"""Walks the batches of a segment file from its start, in pieces: memory stays bounded whatever the
file's size, and whatever size a broken batch claims.

Law: reads with pread through the file system, never maps (a running broker may cut the file under a
mapping), never writes. Bytes that cannot be read as a batch end the walk and are left as the tail.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.file_system import File, FileSystem
from kbroker.record.legacy_record import first_offset, is_intact, read_any_header
from kbroker.record.record_batch import ATTRIBUTES_POSITION, HEADER_SIZE, MAGIC, BatchHeader

HEADERS_READ_BYTES = 4 * 1024  # at once, if only headers are read
BATCHES_READ_BYTES = 1024 * 1024  # at once, if CRCs are checked
MAX_BATCH_BYTES = 256 * 1024 * 1024  # of a batch that is taken into memory whole

_LEGACY_CRC_COVERS_FROM = 16


def tells_first_offset(header: BatchHeader) -> bool:
    """False for wrappers of the old formats, which carry the offset of their last message."""
    return header.magic == MAGIC or not header.compression


class TailKind(Enum):
    """Why the walk ended before the end of the file."""

    TORN = "torn"  # a batch that begins well and is cut short
    ZEROS = "zeros"  # nothing but zeros: space that was reserved, or never written
    GARBAGE = "garbage"  # no batch begins here


class Tail(NamedTuple):
    """The rest at the end of a file that is not a whole batch."""

    kind: TailKind
    position: int
    size_bytes: int
    reason: str


class ScannedBatch(NamedTuple):
    """A batch, or message of an old format, at its place in the file."""

    position: int
    header: BatchHeader
    is_intact: bool  # its CRC is right; True if CRCs are not checked


class SegmentScan:
    """One walk over a segment file. `batches` may be used once; the rest is valid after it."""

    def __init__(
        self, file_system: FileSystem, path: str, *, checks_crc: bool, start: int = 0
    ) -> None:
        self.path = path
        self.size_bytes = 0
        self.tail: Tail | None = None
        self._checks_crc = checks_crc
        self._read_bytes = BATCHES_READ_BYTES if checks_crc else HEADERS_READ_BYTES
        self._start = start
        self._buffer = b""
        self._buffer_start = 0
        self._file: File = file_system.open(path, read_only=True)

    def batches(self) -> Iterator[ScannedBatch]:
        """Yield the batches in the order of the file. Raises StorageError."""
        try:
            self.size_bytes = self._file.size()
            position = self._start
            while position < self.size_bytes:
                header = self._header(position)
                if header is None:
                    return
                intact = not self._checks_crc or self._is_intact(header, position)
                yield ScannedBatch(position, header, intact)
                position += header.size_bytes
        finally:
            self._file.close()

    def read(self, batch: ScannedBatch) -> bytes | memoryview:
        """Return the bytes of a batch, before the walk goes on.

        Raises KafkaError(MESSAGE_TOO_LARGE) above 256 MiB.
        """
        size = batch.header.size_bytes
        at = batch.position - self._buffer_start
        if at >= 0 and at + size <= len(self._buffer):
            return memoryview(self._buffer)[at : at + size]
        if size > MAX_BATCH_BYTES:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"batch of {size} bytes")
        return self._file.pread(size, batch.position)

    def intact(self, limit: int | None = None) -> Iterator[tuple[int, BatchHeader, int, None]]:
        """Yield (first offset, header, position, None) of the batches before `limit`, up to the
        first with a wrong checksum, as `batch_order.recoverable` takes them. Raises StorageError.
        """
        for position, header, is_right in self.batches():
            if not is_right or (limit is not None and position >= limit):
                return
            if header.magic == MAGIC or not header.compression:  # most are: no call for each
                yield header.base_offset, header, position, None
            else:
                yield self._first_offset(position, header), header, position, None

    def _first_offset(self, position: int, header: BatchHeader) -> int:
        try:
            return first_offset(header, self.read(ScannedBatch(position, header, True)))
        except KafkaError:
            return header.base_offset

    def _header(self, position: int) -> BatchHeader | None:
        self._fill(position, HEADER_SIZE)
        try:
            header = read_any_header(self._buffer, position - self._buffer_start)
        except KafkaError as error:
            self._end_at(position, error)
            return None
        missing = position + header.size_bytes - self.size_bytes
        if missing > 0:
            reason = f"a batch of {header.size_bytes} bytes lacks its last {missing}"
            self.tail = Tail(TailKind.TORN, position, self.size_bytes - position, reason)
            return None
        return header

    def _end_at(self, position: int, error: KafkaError) -> None:
        size = self.size_bytes - position
        if self._only_zeros_from(position):
            self.tail = Tail(TailKind.ZEROS, position, size, f"{size} bytes of zeros")
        elif error.code is ErrorCode.INVALID_RECORD:
            self.tail = Tail(TailKind.TORN, position, size, f"{size} bytes: {error.message}")
        else:
            self.tail = Tail(
                TailKind.GARBAGE, position, size, f"{size} bytes are not a batch ({error.message})"
            )

    def _only_zeros_from(self, position: int) -> bool:
        while position < self.size_bytes:
            piece = self._file.pread(BATCHES_READ_BYTES, position)
            if not piece:
                return True
            if piece.count(0) != len(piece):
                return False
            position += len(piece)
        return True

    def _is_intact(self, header: BatchHeader, position: int) -> bool:
        size = header.size_bytes
        if size <= self._read_bytes:
            self._fill(position, size)
            return is_intact(header, self._buffer, position - self._buffer_start)
        first = ATTRIBUTES_POSITION if header.magic == MAGIC else _LEGACY_CRC_COVERS_FROM
        at, end = position + first, position + size
        crc: int | None = None
        while at < end:
            piece = self._file.pread(min(self._read_bytes, end - at), at)
            if not piece:
                return False
            if header.magic != MAGIC:
                crc = zlib.crc32(piece, crc or 0)
            else:
                crc = crc32c(piece) if crc is None else crc32c(piece, crc)
            at += len(piece)
        return crc == header.crc

    def _fill(self, position: int, size: int) -> None:
        """Have `size` bytes from `position` in the buffer, as far as the file has them."""
        at = position - self._buffer_start
        if at < 0 or at + size > len(self._buffer):
            self._buffer = self._file.pread(max(self._read_bytes, size), position)
            self._buffer_start = position
