"""Messages of formats 0 and 1, and the walk over a log that may hold all three formats.

    message = int64 offset, int32 length after this, uint32 CRC-32 of the rest, int8 magic,
              int8 attributes, int64 timestamp (format 1), int32 key length (-1: null), key,
              int32 value length (-1: null), value

A compressed message wraps a set of messages in its value and carries the offset of the last of
them; inner offsets are absolute in format 0 and relative in format 1. Attributes: bits 0-2
compression, 3 timestamp type (format 1).

Law: as in record_batch, any bytes give records or a KafkaError. Old formats are read here and built
in `legacy_builder`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from struct import error as struct_error
from typing import Final, NoReturn

from fastcrc.crc32 import iscsi as crc32c

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    new_tuple,
)
from kbroker.record import record_batch
from kbroker.record.default_record import Bytes, Record, invalid
from kbroker.record.message_stream import MIN_LENGTH
from kbroker.record.old_messages import OldMessages
from kbroker.record.record_batch import ATTRIBUTES_POSITION, LOG_OVERHEAD, BatchHeader
from kbroker.record.record_stream import Pace

HEADER_SIZE_UP_TO_MAGIC: Final = 17  # the bytes that show a batch's kind and size
_PREFIX = Struct(
    ">qiIb"
)  # offset, length, crc, magic: format 2 has its leader epoch in place of the CRC
_TIMESTAMP = Struct(">q")
_LENGTH = Struct(">i")
_unpack_batch = record_batch.HEADER.unpack_from
_CRC_COVERS_FROM: Final = 16
_TIMESTAMP_POSITION: Final = 18


def read_any_header(buffer: Bytes, position: int = 0) -> BatchHeader:
    """The header of the batch or old message at `position`. An old message is shown as a batch of
    one record. For a compressed one that record is the last of the wrapped set: the first offset is
    known only after unpacking. KafkaError(CORRUPT_MESSAGE) for impossible lengths and formats,
    INVALID_RECORD if the bytes end too early.
    """
    try:  # nearly all are batches
        header = _unpack_batch(buffer, position)
        if header[3] == record_batch.MAGIC and header[1] >= MIN_LENGTH[record_batch.MAGIC]:
            return new_tuple(BatchHeader, header)
    except struct_error:
        pass  # too few bytes for one
    if len(buffer) - position < HEADER_SIZE_UP_TO_MAGIC:
        invalid(f"no whole record batch in {len(buffer) - position} bytes")
    offset, length, crc, magic = _PREFIX.unpack_from(buffer, position)
    if not 0 <= magic <= record_batch.MAGIC or length < MIN_LENGTH[magic]:
        _corrupt(f"record batch with magic {magic} and length {length}")
    if magic == record_batch.MAGIC:
        return record_batch.read_header(buffer, position)
    return _legacy_header(buffer, position, (offset, length, crc, magic))


def is_intact(header: BatchHeader, buffer: Bytes, position: int = 0) -> bool:
    """True if the whole batch or message is there with its right checksum; `header` is its own."""
    end = position + header.batch_length + LOG_OVERHEAD
    if end > len(buffer):
        return False
    view = memoryview(buffer)
    if header.magic == record_batch.MAGIC:
        return crc32c(view[position + ATTRIBUTES_POSITION : end]) == header.crc
    return zlib.crc32(view[position + _CRC_COVERS_FROM : end]) == header.crc


def first_offset(header: BatchHeader, batch: Bytes) -> int:
    """The first offset of an intact batch or old message; the header of a compressed old one has
    only the last. If the message cannot be unpacked, the last one is returned.
    """
    if header.magic == record_batch.MAGIC or not header.compression:
        return header.base_offset
    try:
        return OldMessages.wrapped(header, memoryview(batch)).walk().first_offset
    except KafkaError:
        return header.base_offset


def any_records(buffer: Bytes, position: int = 0, pace: Pace | None = None) -> Iterator[Record]:
    """The records of the batch or old message at `position`, wrapped ones included, unpacked as
    they are read. An old message yields its records once all of them are known to be readable; a
    batch yields the first ones before the last ones are seen.
    """
    header = read_any_header(buffer, position)
    if header.magic == record_batch.MAGIC:
        return record_batch.records(buffer, position, pace=pace)
    return _legacy_records(header, memoryview(buffer)[position:], pace)


def _legacy_header(buffer: Bytes, position: int, prefix: tuple[int, int, int, int]) -> BatchHeader:
    offset, length, crc, magic = prefix
    if len(buffer) - position < _TIMESTAMP_POSITION + 8 * magic:
        invalid(f"message cut short after {len(buffer) - position} bytes")
    attributes: int = buffer[position + HEADER_SIZE_UP_TO_MAGIC]
    timestamp = NO_TIMESTAMP
    if magic == 1:
        (timestamp,) = _TIMESTAMP.unpack_from(buffer, position + _TIMESTAMP_POSITION)
    header: BatchHeader = new_tuple(
        BatchHeader,
        (
            offset,
            length,
            NO_PARTITION_LEADER_EPOCH,
            magic,
            crc,
            attributes & (0x0F if magic else 0x07),
            0,  # last offset delta
            timestamp,
            timestamp,
            NO_PRODUCER_ID,
            NO_PRODUCER_EPOCH,
            NO_SEQUENCE,
            1,  # record count
        ),
    )
    return header


def _legacy_records(
    header: BatchHeader, message: memoryview, pace: Pace | None
) -> Iterator[Record]:
    if header.compression:
        messages = OldMessages.wrapped(header, message, pace)
        yield from messages.records(messages.walk().record_count)
    else:
        yield _read_message(header, message)


def _read_message(header: BatchHeader, message: memoryview) -> Record:
    end = header.size_bytes
    if end > len(message):
        invalid(f"message of {end} bytes, {len(message)} given")
    key, at = _read_bytes(message, _TIMESTAMP_POSITION + 8 * header.magic, end)
    value, _ = _read_bytes(message, at, end)  # further bytes are dropped, as in Java
    return Record(header.base_offset, header.max_timestamp, key, value)


def _read_bytes(message: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    at = position + _LENGTH.size
    if at > end:
        invalid("message cut short")
    (length,) = _LENGTH.unpack_from(message, position)
    if length < 0:
        return None, at
    if at + length > end:
        invalid(f"field of {length} bytes, {end - at} left in its message")
    return bytes(message[at : at + length]), at + length


def _corrupt(reason: str) -> NoReturn:
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, reason)
