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
)
from kbroker.record import record_batch
from kbroker.record.codecs.lz4_checksum import with_right_checksum
from kbroker.record.compression import DEFAULT_MAX_BYTES, LZ4, ZSTD, decompress
from kbroker.record.default_record import Bytes, Record, invalid, let_go
from kbroker.record.record_batch import (
    ATTRIBUTES_POSITION,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    BatchHeader,
)
from kbroker.record.record_stream import Pace

HEADER_SIZE_UP_TO_MAGIC: Final = 17  # what must be there before a batch's kind and size are known
_PREFIX = Struct(
    ">qiIb"
)  # offset, length, crc, magic: format 2 has its leader epoch in place of the CRC
_TIMESTAMP = Struct(">q")
_LENGTH = Struct(">i")
_unpack_batch = record_batch.HEADER.unpack_from
_new_tuple = tuple.__new__  # per message: a third of the time that the class takes
_CRC_COVERS_FROM: Final = 16
_TIMESTAMP_POSITION: Final = 18
_MIN_LENGTH: Final = (14, 22, 49)  # by format, after the length field


def read_any_header(buffer: Bytes, position: int = 0) -> BatchHeader:
    """The header of the batch or old message at `position`.

    An old message is shown as a batch of one record; for a compressed one that record is the last
    of the wrapped set, since telling the first offset would mean to unpack it.
    KafkaError(CORRUPT_MESSAGE) for lengths and formats that cannot be, INVALID_RECORD where the
    bytes end too early.
    """
    try:  # nearly all are batches
        header = _unpack_batch(buffer, position)
        if header[3] == record_batch.MAGIC and header[1] >= _MIN_LENGTH[record_batch.MAGIC]:
            return _new_tuple(BatchHeader, header)
    except struct_error:
        pass  # too few bytes for one
    if len(buffer) - position < HEADER_SIZE_UP_TO_MAGIC:
        invalid(f"no whole record batch in {len(buffer) - position} bytes")
    offset, length, crc, magic = _PREFIX.unpack_from(buffer, position)
    if not 0 <= magic <= record_batch.MAGIC or length < _MIN_LENGTH[magic]:
        _corrupt(f"record batch with magic {magic} and length {length}")
    if magic == record_batch.MAGIC:
        return record_batch.read_header(buffer, position)
    return _legacy_header(buffer, position, (offset, length, crc, magic))


def is_intact(header: BatchHeader, buffer: Bytes, position: int = 0) -> bool:
    """True where the whole batch or message is there and its checksum is right; the header is the
    one that is there.
    """
    end = position + header.batch_length + LOG_OVERHEAD
    if end > len(buffer):
        return False
    view = memoryview(buffer)
    if header.magic == record_batch.MAGIC:
        return crc32c(view[position + ATTRIBUTES_POSITION : end]) == header.crc
    return zlib.crc32(view[position + _CRC_COVERS_FROM : end]) == header.crc


def first_offset(header: BatchHeader, batch: Bytes) -> int:
    """Of an intact batch or old message; the header of a compressed old one tells the last.

    What cannot be unpacked has no more than that.
    """
    if header.magic == record_batch.MAGIC or not header.compression:
        return header.base_offset
    try:
        return next(any_records(batch)).offset
    except (KafkaError, StopIteration):
        return header.base_offset


def any_records(
    buffer: Bytes,
    position: int = 0,
    max_decompressed_bytes: int = DEFAULT_MAX_BYTES,
    pace: Pace | None = None,
) -> Iterator[Record]:
    """The records of the batch or old message at `position`, wrapped ones included. An old message
    is unpacked at once.
    """
    header = read_any_header(buffer, position)
    if header.magic == record_batch.MAGIC:
        return record_batch.records(buffer, position, max_decompressed_bytes, pace)
    return _legacy_records(header, memoryview(buffer), position, max_decompressed_bytes)


def produced_records(
    header: BatchHeader, message: Bytes, max_decompressed_bytes: int = DEFAULT_MAX_BYTES
) -> list[Record]:
    """The records of one old message that a producer sent, as `any_records`.

    The checksum of each wrapped message is checked too: CORRUPT_MESSAGE.
    """
    view = memoryview(message)
    outer = _read_message(header, view, 0)
    if not header.compression:
        return [outer]
    inner = []
    for inner_header, wrapped, at in _unwrap(header, outer.value, max_decompressed_bytes):
        if not is_intact(inner_header, wrapped, at):
            _corrupt(f"wrapped message with a wrong checksum (stored crc = {inner_header.crc})")
        inner.append(_read_message(inner_header, wrapped, at))
    placed = list(_placed(header, inner))
    let_go(inner)
    return placed


def _legacy_header(buffer: Bytes, position: int, prefix: tuple[int, int, int, int]) -> BatchHeader:
    offset, length, crc, magic = prefix
    if len(buffer) - position < _TIMESTAMP_POSITION + 8 * magic:
        invalid(f"message cut short after {len(buffer) - position} bytes")
    attributes: int = buffer[position + HEADER_SIZE_UP_TO_MAGIC]
    timestamp = NO_TIMESTAMP
    if magic == 1:
        (timestamp,) = _TIMESTAMP.unpack_from(buffer, position + _TIMESTAMP_POSITION)
    header: BatchHeader = _new_tuple(
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
    header: BatchHeader, view: memoryview, position: int, max_bytes: int
) -> Iterator[Record]:
    message = _read_message(header, view, position)
    if not header.compression:
        yield message
        return
    inner = [
        _read_message(inner_header, wrapped, at)
        for inner_header, wrapped, at in _unwrap(header, message.value, max_bytes)
    ]
    yield from _placed(header, inner)


def _placed(header: BatchHeader, inner: list[Record]) -> Iterator[Record]:
    """Wrapped records with absolute offsets and the time that counts."""
    if not inner:
        invalid("compressed message that wraps nothing")
    shift = _shift(header, inner[-1].offset) if header.magic == 1 else 0
    stamp = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    for offset, timestamp, key, value, _ in inner:
        yield Record(offset + shift, timestamp if stamp is None else stamp, key, value)


def _shift(header: BatchHeader, last_inner_offset: int) -> int:
    """Return the number that makes relative offsets of format 1 absolute.

    Some versions of librdkafka left the wrapper's offset at 0 when they produced.
    """
    if header.base_offset == 0:
        return 0
    if header.base_offset < last_inner_offset:
        invalid(
            f"compressed message with offset {header.base_offset} that wraps one with "
            f"offset {last_inner_offset}"
        )
    return header.base_offset - last_inner_offset


def _unwrap(
    header: BatchHeader, value: bytes | None, max_bytes: int
) -> Iterator[tuple[BatchHeader, memoryview, int]]:
    """(header, buffer, position) of each message in a compressed one; none where cut off."""
    codec = header.compression
    if value is None:
        invalid("compressed message without value")
    if codec == ZSTD:
        invalid(f"message of format {header.magic} compressed with zstd")
    if codec == LZ4 and header.magic == 0:
        value = with_right_checksum(value)
    inner = memoryview(decompress(codec, value, max_bytes))
    position = 0
    while (end := _end_of_message(inner, position)) <= len(inner):
        message = read_any_header(inner, position)
        if message.magic != header.magic or message.compression:
            invalid(f"message of format {message.magic} wrapped in format {header.magic}")
        yield message, inner, position
        position = end


def _end_of_message(view: memoryview, position: int) -> int:
    """Where the message at `position` ends, beyond the end of all if it is cut off."""
    start = position + LOG_OVERHEAD
    if start > len(view):
        return start
    (length,) = _LENGTH.unpack_from(view, start - _LENGTH.size)
    if length < _MIN_LENGTH[0]:
        _corrupt(f"wrapped message with the length {length}")
    return start + int(length)


def _read_message(header: BatchHeader, view: memoryview, position: int) -> Record:
    end = position + header.size_bytes
    if end > len(view):
        invalid(f"message of {header.size_bytes} bytes, {len(view) - position} given")
    at = position + _TIMESTAMP_POSITION + 8 * header.magic
    key, at = _read_bytes(view, at, end)
    value, at = _read_bytes(view, at, end)
    if at != end:
        invalid(f"{end - at} bytes after a message's value")
    return Record(header.base_offset, header.max_timestamp, key, value)


def _read_bytes(view: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    at = position + _LENGTH.size
    if at > end:
        invalid("message cut short")
    (length,) = _LENGTH.unpack_from(view, position)
    if length < 0:
        return None, at
    if at + length > end:
        invalid(f"field of {length} bytes, {end - at} left in its message")
    return bytes(view[at : at + length]), at + length


def _corrupt(reason: str) -> NoReturn:
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, reason)
