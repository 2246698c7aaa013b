"""Messages of formats 0 and 1 built from records: plain ones in a row, or all in one compressed
wrapper. The layout is in `legacy_record`.

Law: the bytes are those that Apache Kafka writes for the same records: inner offsets absolute in
format 0 and relative to the first record in format 1, the wrapper's offset that of the last record,
its time the largest one, lz4 of format 0 with that format's wrong checksum (KIP-31, KIP-32,
KIP-57). Headers are left out: the old formats have no place for them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from struct import Struct
from struct import error as struct_error
from typing import Final

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_TIMESTAMP
from kbroker.record.codecs.lz4_checksum import with_format_0_checksum
from kbroker.record.codecs.payload import PIECE_BYTES
from kbroker.record.compression import LZ4, NONE, ZSTD, compress_pieces
from kbroker.record.default_record import Bytes, Record, invalid
from kbroker.record.record_batch import TIMESTAMP_TYPE_BIT, BatchHeader

_HEAD = Struct(">qiI")  # offset, length from the CRC on, CRC-32 of what follows
_FORMAT_0 = Struct(">bbi")  # magic, attributes, key length
_FORMAT_1 = Struct(">bbqi")  # magic, attributes, timestamp, key length
_WRAPPER = Struct(">bbq")  # magic, attributes, timestamp
_LENGTH = Struct(">i")
_NULL: Final = b"\xff\xff\xff\xff"
_CRC_BYTES: Final = 4


def build_legacy(
    records: Iterable[Record],
    magic: int,
    compression: int = NONE,
    *,
    append_time_ms: int | None = None,
    level: int | None = None,
) -> bytes:
    """A message set of these records (offsets absolute, rising) in format 0 or 1; empty for none.

    Without compression one message per record, with it one message that wraps them all. With
    `append_time_ms` all carry that time and the LogAppendTime bit; format 0 has neither. `level` is
    the codec's, None for its default. Times below -1 become -1: a message has no other word for
    them. KafkaError: UNSUPPORTED_COMPRESSION_TYPE for zstd and ids that name no codec,
    INVALID_RECORD for offsets and times that 64 bits do not hold.
    """
    assert magic in (0, 1), magic
    given = iter(records)
    first = next(given, None)
    if first is None:
        return b""
    if compression >= ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Message format {magic} has no compression type id {compression}",
        )
    attributes = 0
    entries: Iterable[Record] = chain((first,), given)
    if magic and append_time_ms is not None:
        attributes = TIMESTAMP_TYPE_BIT
        stamp = append_time_ms
        entries = (record._replace(timestamp=stamp) for record in chain((first,), given))
    if not compression:
        return b"".join(_Messages(magic, attributes, 0).pieces(entries))
    inner = _Messages(magic, attributes, first.offset if magic else 0)
    wrapped = compress_pieces(compression, inner.pieces(entries), level)
    if compression == LZ4 and not magic:
        wrapped = with_format_0_checksum(wrapped)
    wrapper = Record(inner.last_offset, inner.largest_timestamp, None, wrapped)
    return b"".join(_Messages(magic, attributes | compression, 0).pieces((wrapper,)))


def place_wrapper(
    header: BatchHeader,
    message: Bytes,
    last_offset: int,
    timestamp: int,
    append_time_ms: int | None,
) -> bytes:
    """A compressed message of format 1 at another offset and time; the messages in it stay as they
    are.

    `timestamp` is the largest of theirs; `append_time_ms`, if given, replaces it.
    """
    stamped = append_time_ms is not None
    attributes = header.compression | (TIMESTAMP_TYPE_BIT if stamped else 0)
    body = bytearray(message[_HEAD.size :])
    _WRAPPER.pack_into(body, 0, 1, attributes, append_time_ms if stamped else timestamp)
    return _HEAD.pack(last_offset, len(body) + _CRC_BYTES, zlib.crc32(body)) + body


class _Messages:
    """A message set that is written in pieces, and the facts known once it is written."""

    def __init__(self, magic: int, attributes: int, base_offset: int) -> None:
        self.last_offset = base_offset
        self.largest_timestamp = NO_TIMESTAMP
        self._magic = magic
        self._attributes = attributes
        self._base_offset = base_offset

    def pieces(self, records: Iterable[Record]) -> Iterator[bytearray]:
        """The messages of these records, whole ones."""
        magic, attributes, base_offset = self._magic, self._attributes, self._base_offset
        out = bytearray()
        offset, largest = base_offset, NO_TIMESTAMP
        try:
            for offset, timestamp, key, value, _headers in records:
                largest = max(largest, timestamp)
                key_length = -1 if key is None else len(key)
                if magic:
                    body = _FORMAT_1.pack(1, attributes, max(timestamp, NO_TIMESTAMP), key_length)
                else:
                    body = _FORMAT_0.pack(0, attributes, key_length)
                if key:
                    body += key
                body += _NULL if value is None else _LENGTH.pack(len(value)) + value
                out += _HEAD.pack(offset - base_offset, len(body) + _CRC_BYTES, zlib.crc32(body))
                out += body
                if len(out) >= PIECE_BYTES:
                    yield out
                    out = bytearray()
        except struct_error:  # a batch may add up to times that no 64 bits hold
            invalid("record with an offset or a time that is out of range")
        self.last_offset, self.largest_timestamp = offset, largest
        yield out
