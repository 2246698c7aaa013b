"""A batch that this broker has just built: its bytes, and the header that they begin with.

Pure. Law: the bytes are those of `record_batch.build` for the same records, and the header says
what they say, so that nobody has to read or check what was made a moment ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

from fastcrc.crc32 import iscsi as crc32c

from kbroker.model import new_tuple
from kbroker.record.compression import NONE
from kbroker.record.default_record import varint_bytes
from kbroker.record.record_batch import (
    ATTRIBUTES_POSITION,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    BatchOptions,
)

_START: Final = Struct(">qiibI").pack  # up to the CRC
_COVERED: Final = Struct(">hiqqqhii").pack  # by the CRC, up to the records
_AFTER_LENGTH: Final = ATTRIBUTES_POSITION - LOG_OVERHEAD
_NO_VALUE: Final = varint_bytes(-1)
_AT_BASE_TIME: Final = b"\0\0"  # attributes, and the distance to the first record's time
_NO_HEADERS: Final = b"\0"
_varint = lru_cache(maxsize=1024)(varint_bytes)  # lengths and places, which repeat


class BuiltBatch(bytearray):
    """The bytes of a batch, and its header; offsets may be written into the bytes alone."""

    __slots__ = ("header",)

    header: BatchHeader


def build_at_one_time(
    records: Sequence[tuple[bytes, bytes | None]], time_ms: int, options: BatchOptions
) -> BuiltBatch:
    """A batch at offset 0 of keys with their values, all of this time; None is a tombstone.

    There is at least one record, and they are stored as they are: `options` name no compression.
    """
    assert records
    assert options.compression == NONE
    pieces = [b""]  # for what the CRC covers before the records
    for index, (key, value) in enumerate(records):
        body = b"".join(
            (
                _AT_BASE_TIME,
                _varint(index),
                _varint(len(key)),
                key,
                _NO_VALUE if value is None else _varint(len(value)),
                value or b"",
                _NO_HEADERS,
            )
        )
        pieces += (_varint(len(body)), body)
    fields = (
        options.flags,
        index,
        time_ms,
        time_ms,
        options.producer_id,
        options.producer_epoch,
        options.base_sequence,
        index + 1,
    )
    pieces[0] = _COVERED(*fields)
    covered = b"".join(pieces)
    start = (
        0,
        _AFTER_LENGTH + len(covered),
        options.partition_leader_epoch,
        MAGIC,
        crc32c(covered),
    )
    batch = BuiltBatch(_START(*start))
    batch += covered
    batch.header = new_tuple(BatchHeader, start + fields)
    return batch
