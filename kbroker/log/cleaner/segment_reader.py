"""Reads a segment that is no longer written to, batch by batch, on a descriptor of its own.

Law: every batch is whole and its checksum right, or DamagedSegmentError says where not: what cannot
be read must not decide which records go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

from kbroker.errors import KafkaError
from kbroker.log.cleaner.cleaning_job import SourceSegment
from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import MAX_RELATIVE_OFFSET
from kbroker.record.legacy_record import is_intact, read_any_header
from kbroker.record.record_batch import HEADER_SIZE, BatchHeader

_MIN_BATCH_BYTES: Final = 26  # the header of any old message fits


class DamagedSegmentError(Exception):
    """A segment holds bytes that are not an intact batch; the message says where."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} at position {position}: {reason}")
        self.path = path


def read_batches(
    file_system: FileSystem,
    segment: SourceSegment,
    read_bytes: int,
    before_read: Callable[[int], None],
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches of a segment. `before_read` hears how many bytes are read next, about
    `read_bytes` each time, more if a batch is larger. Raises DamagedSegmentError, StorageError.
    """
    with closing(file_system.open(segment.path, read_only=True)) as file:
        position, window, at = 0, memoryview(b""), 0
        last_offset = segment.base_offset - 1
        highest = segment.base_offset + MAX_RELATIVE_OFFSET
        while position < segment.size_bytes:
            header = _header(segment, window, at, position)
            if header is None or at + header.size_bytes > len(window):
                at, wanted = 0, read_bytes
                window = _read(file.pread, segment, position, wanted, before_read)
                header = _header(segment, window, 0, position)
                if header is not None and len(window) < header.size_bytes > wanted:
                    window = _read(file.pread, segment, position, header.size_bytes, before_read)
                if header is None or header.size_bytes > len(window):
                    raise _damaged(segment, position, "a batch is cut off")
            batch = window[at : at + header.size_bytes]
            if not is_intact(header, batch):
                raise _damaged(segment, position, "a batch has a wrong checksum")
            base_offset, before, last_offset = header.base_offset, last_offset, header.last_offset
            # The checksum does not cover offsets.
            if not before < base_offset <= last_offset <= highest:
                raise _damaged(segment, position, "offsets go back, or beyond the segment")
            yield header, batch
            at += header.size_bytes
            position += header.size_bytes


def _header(
    segment: SourceSegment, window: memoryview, at: int, position: int
) -> BatchHeader | None:
    """The header at `at`, None if the window ends before it does."""
    left = len(window) - at
    if left < HEADER_SIZE and (left < _MIN_BATCH_BYTES or window[at + 16] >= 2):
        return None
    try:
        return read_any_header(window, at)
    except KafkaError as error:
        raise _damaged(segment, position, str(error)) from error


def _read(
    pread: Callable[[int, int], bytes],
    segment: SourceSegment,
    position: int,
    wanted: int,
    before_read: Callable[[int], None],
) -> memoryview:
    size = min(wanted, segment.size_bytes - position)
    before_read(size)
    return memoryview(pread(size, position))


def _damaged(segment: SourceSegment, position: int, reason: str) -> DamagedSegmentError:
    return DamagedSegmentError(segment.path, position, reason)
