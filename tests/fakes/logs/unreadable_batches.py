"""Batches that are whole, with a right checksum, and whose records nobody can read: what brokers
that look at headers alone have stored.
"""

from __future__ import annotations

import struct
import zlib

from fastcrc.crc32 import iscsi as crc32c

from kbroker.record.compression import GZIP
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchOptions,
    Record,
    build,
)
from tests.fakes.logs.log_maker import NOW_MS

GARBAGE = b"these bytes are not what a codec makes"


def unreadable_batch(
    base_offset: int, count: int = 1, *, timestamp: int = NOW_MS, codec: int = GZIP, flags: int = 0
) -> bytes:
    """A batch of `count` offsets that claims a codec, and cannot be unpacked."""
    records = [Record(base_offset + n, timestamp, b"k", b"v") for n in range(count)]
    options = BatchOptions(flags=flags, partition_leader_epoch=0)
    batch = bytearray(build(records, base_offset=base_offset, options=options))
    batch[HEADER_SIZE:] = GARBAGE
    struct.pack_into(">i", batch, LOG_OVERHEAD - 4, len(batch) - LOG_OVERHEAD)
    batch[ATTRIBUTES_POSITION + 1] |= codec
    _seal(batch)
    return bytes(batch)


def batch_cut_short(base_offset: int, count: int, *, timestamp: int = NOW_MS) -> bytes:
    """A batch without compression whose last record ends too early."""
    records = [Record(base_offset + n, timestamp, b"k", b"v" * 9) for n in range(count)]
    options = BatchOptions(partition_leader_epoch=0)
    batch = bytearray(build(records, base_offset=base_offset, options=options)[:-5])
    struct.pack_into(">i", batch, LOG_OVERHEAD - 4, len(batch) - LOG_OVERHEAD)
    _seal(batch)
    return bytes(batch)


def unreadable_message(offset: int, magic: int, *, timestamp: int = NOW_MS) -> bytes:
    """A compressed message of format 0 or 1 that cannot be unpacked."""
    record = Record(offset, timestamp if magic else -1, None, GARBAGE)
    message = bytearray(build_legacy([record], magic))
    message[17] |= GZIP
    struct.pack_into(">I", message, 12, zlib.crc32(message[16:]))
    return bytes(message)


def _seal(batch: bytearray) -> None:
    struct.pack_into(">I", batch, CRC_POSITION, crc32c(bytes(batch[ATTRIBUTES_POSITION:])))
