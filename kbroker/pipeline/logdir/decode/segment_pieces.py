"""Reads a stretch of a segment file in pieces of whole batches.

Law: reads with pread, never maps (a running broker may cut the file under a mapping). A claimed
length allocates nothing: a batch is read when the file holds it and it has at most 256 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from struct import Struct
from typing import Final, NamedTuple

from kbroker.errors import KafkaError
from kbroker.inspection.segment_scan import MAX_BATCH_BYTES
from kbroker.log.disk.file_system import File, FileSystem
from kbroker.pipeline.logdir.decode.damage import DamagedBatchError
from kbroker.pipeline.logdir.segment_task import SegmentTask
from kbroker.record.legacy_record import read_any_header
from kbroker.record.record_batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC

PIECE_BYTES: Final = 4 * 1024 * 1024

_LENGTH_TO_MAGIC = Struct(">iib")  # at 8: length, leader epoch or CRC, magic
_BASE_OFFSET = Struct(">q")
_MIN_LENGTHS: Final = {0: 14, 1: 22, MAGIC: HEADER_SIZE - LOG_OVERHEAD}


class Piece(NamedTuple):
    """Whole batches that follow each other in the file."""

    buffer: bytes
    position: int  # of the buffer in the file
    bounds: list[int]  # where each batch begins in the buffer, and where the last one ends
    is_old: bool  # some are messages of format 0 or 1
    damage: DamagedBatchError | None = None  # what is after them, if it is not a batch
    follower_offset: int | None = None  # base offset of the batch after them, if known


def pieces(file_system: FileSystem, task: SegmentTask) -> Iterator[Piece]:
    """The batches that begin in the task's stretch; the last piece may report damage.

    Raises StorageError.
    """
    with closing(file_system.open(task.path, read_only=True)) as file:
        file_size = file.size()
        position, need = task.start_position, HEADER_SIZE
        while position < task.end_position:
            size = max(min(PIECE_BYTES, task.end_position - position), need)
            piece = _piece(file.pread(size, position), position, task.end_position - position)
            at = piece.bounds[-1]
            position += at
            need = HEADER_SIZE
            if position < task.end_position:
                found = _needed(file, piece, file_size, size)
                if isinstance(found, DamagedBatchError):
                    yield piece._replace(damage=found)
                    return
                need = found
                piece = piece._replace(follower_offset=_base_offset(piece))
            if at:
                yield piece


def _piece(buffer: bytes, position: int, stop: int) -> Piece:
    """Follows the chain of lengths as far as it holds whole batches, up to `stop`."""
    unpack = _LENGTH_TO_MAGIC.unpack_from
    size = len(buffer)
    last_start = min(size - _LENGTH_TO_MAGIC.size - 8, stop - 1)
    bounds = [0]
    is_old = False
    at = 0
    while at <= last_start:
        length, _, magic = unpack(buffer, at + 8)
        if magic != MAGIC:
            is_old = True
        if length < _MIN_LENGTHS.get(magic, size):
            break
        at += length + LOG_OVERHEAD
        if at > size:
            break
        bounds.append(at)
    return Piece(buffer, position, bounds, is_old)


def _needed(file: File, piece: Piece, file_size: int, asked: int) -> int | DamagedBatchError:
    """Return how much to read at once to have the batch after the piece's last, or the damage.

    `asked` bytes were to be read for the piece.
    """
    at = piece.bounds[-1]
    position = piece.position + at
    offset = _base_offset(piece)
    have = len(piece.buffer) - at
    if len(piece.buffer) < min(asked, file_size - piece.position):
        return DamagedBatchError(
            file.path, position, offset, "the file became shorter while it was read"
        )
    if have < HEADER_SIZE and position + have < file_size and at:
        return HEADER_SIZE
    try:
        size = read_any_header(piece.buffer, at).size_bytes
    except KafkaError as error:
        return DamagedBatchError(file.path, position, offset, str(error))
    missing = position + size - file_size
    if missing > 0:
        reason = f"it has {size} bytes, of which the file lacks the last {missing}"
        return DamagedBatchError(file.path, position, offset, reason)
    if size > MAX_BATCH_BYTES:
        reason = f"it has {size} bytes, more than the {MAX_BATCH_BYTES} that are read at once"
        return DamagedBatchError(file.path, position, offset, reason, position + size)
    return size


def _base_offset(piece: Piece) -> int | None:
    """Return the base offset that the batch after the piece's last should have."""
    at = piece.bounds[-1]
    if at + _BASE_OFFSET.size > len(piece.buffer):
        return None
    offset: int = _BASE_OFFSET.unpack_from(piece.buffer, at)[0]
    return offset
