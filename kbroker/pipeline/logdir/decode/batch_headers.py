"""The headers of many batches as one numpy array.

Messages of formats 0 and 1 are shown as `read_any_header` shows them: batches of one record.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from fastcrc.crc32 import iscsi as crc32c

from kbroker.pipeline.logdir.decode.segment_pieces import Piece
from kbroker.record.compression import COMPRESSION_MASK
from kbroker.record.legacy_record import read_any_header
from kbroker.record.record_batch import (
    ATTRIBUTES_POSITION,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_LAYOUT: Final = np.dtype(  # as record_batch.HEADER
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
_OLD_CRC_COVERS_FROM: Final = 16
assert _LAYOUT.itemsize == HEADER_SIZE


class BatchHeaders:
    """Headers of a piece's batches; each field is an int64 array, made when it is asked for."""

    def __init__(self, raw: npt.NDArray[Any], positions: Int64s) -> None:
        self._raw = raw
        self.positions = positions  # in the file

    @classmethod
    def of(cls, piece: Piece) -> BatchHeaders:
        """Read all headers of the piece."""
        places = piece.bounds[:-1]
        if piece.is_old:
            headers = [read_any_header(piece.buffer, place) for place in places]
            return cls.from_headers(headers, [piece.position + place for place in places])
        if not places:
            return cls.from_headers([], [])
        starts = np.array(places, np.int64)
        every = len(piece.buffer) - HEADER_SIZE + 1
        raw = np.ndarray((every,), _LAYOUT, piece.buffer, strides=(1,))[starts]
        return cls(raw, starts + piece.position)

    @classmethod
    def from_headers(cls, headers: Iterable[BatchHeader], positions: list[int]) -> BatchHeaders:
        """Take headers that were read one by one, and their positions in the file."""
        packed = bytearray().join([HEADER.pack(*header) for header in headers])
        raw = np.ndarray((len(positions),), _LAYOUT, packed)
        return cls(raw, np.array(positions, np.int64))

    def __len__(self) -> int:
        return len(self._raw)

    def take(self, chosen: Bools | Int64s | slice) -> BatchHeaders:
        return BatchHeaders(self._raw[chosen], self.positions[chosen])

    def field(self, name: str) -> Int64s:
        """Named as in `BatchHeader`."""
        return self._raw[name].astype(np.int64)

    def has_flag(self, bit: int) -> Bools:
        """True for each batch that has this bit in its attributes."""
        found: Bools = (self.field("attributes") & bit) != 0
        return found

    @property
    def size_bytes(self) -> Int64s:
        return self.field("batch_length") + LOG_OVERHEAD

    @property
    def last_offset(self) -> Int64s:
        return self.field("base_offset") + self.field("last_offset_delta")

    @property
    def compression(self) -> Int64s:
        return self.field("attributes") & COMPRESSION_MASK

    @property
    def is_old(self) -> Bools:
        old: Bools = self._raw["magic"] != MAGIC
        return old

    @property
    def is_wrapper(self) -> Bools:
        """True for a message that wraps others: offset and count are those of the last alone."""
        wrapper: Bools = self.is_old & (self.compression != 0)
        return wrapper

    @property
    def is_append_time(self) -> Bools:
        """True if all records have the max timestamp, at which the broker wrote the batch."""
        return self.has_flag(TIMESTAMP_TYPE_BIT)

    @property
    def timestamp_type(self) -> Int64s:
        """0 CreateTime, 1 LogAppendTime, -1 in format 0, which has no times."""
        return np.where(self._raw["magic"] == 0, -1, self.is_append_time)

    @property
    def is_transactional(self) -> Bools:
        return self.has_flag(TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> Bools:
        return self.has_flag(CONTROL_BIT)


def crcs_match(headers: BatchHeaders, piece: Piece) -> Bools:
    """True for each batch whose checksum is right: CRC-32C, or CRC-32 of the old formats."""
    view = memoryview(piece.buffer)
    bounds = pairwise(piece.bounds)
    if piece.is_old:
        found = [
            zlib.crc32(view[start + _OLD_CRC_COVERS_FROM : end])
            if is_old
            else crc32c(view[start + ATTRIBUTES_POSITION : end])
            for (start, end), is_old in zip(bounds, headers.is_old, strict=True)
        ]
    else:
        found = [crc32c(view[start + ATTRIBUTES_POSITION : end]) for start, end in bounds]
    right: Bools = np.array(found, np.int64) == headers.field("crc")
    return right
