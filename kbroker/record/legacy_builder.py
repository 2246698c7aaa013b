"""Messages of formats 0 and 1 built from records: one after the other, or wrapped in one that is
compressed. The layout is in `legacy_record`.

Law: what comes out is what Apache Kafka writes for the same records: inner offsets absolute in
format 0 and relative to the first record in format 1, the wrapper's offset that of the last record,
its time the largest one, lz4 of format 0 with the checksum of its time (KIP-31, KIP-32, KIP-57).
Headers are left out: the old formats have no place for them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from struct import Struct
from typing import Final

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_TIMESTAMP
from kbroker.record.compression import COMPRESSION_MASK, LZ4, NONE, ZSTD, compress
from kbroker.record.default_record import Record
from kbroker.record.lz4_checksum import with_format_0_checksum
from kbroker.record.record_batch import TIMESTAMP_TYPE_BIT

_HEAD = Struct(">qiI")  # offset, length from the CRC on, CRC-32 of what follows
_FORMAT_0 = Struct(">bbi")  # magic, attributes, key length
_FORMAT_1 = Struct(">bbqi")  # magic, attributes, timestamp, key length
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
    the codec's, None for its default. Times below -1 become -1, which is all that a message can
    say of them. KafkaError: UNSUPPORTED_COMPRESSION_TYPE for zstd and ids that name no codec.
    """
    assert magic in (0, 1), magic
    entries = list(records)
    if not entries:
        return b""
    attributes = 0
    if magic and append_time_ms is not None:
        attributes = TIMESTAMP_TYPE_BIT
        entries = [record._replace(timestamp=append_time_ms) for record in entries]
    if not compression:
        return bytes(_messages(entries, magic, attributes, 0))
    if compression >= ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Message format {magic} has no compression type id {compression}",
        )
    inner = _messages(entries, magic, attributes, entries[0].offset if magic else 0)
    wrapped = bytes(compress(compression, inner, level))
    if compression == LZ4 and not magic:
        wrapped = with_format_0_checksum(wrapped)
    largest = max(record.timestamp for record in entries)
    wrapper = Record(entries[-1].offset, largest, None, wrapped)
    return bytes(_messages([wrapper], magic, attributes | compression & COMPRESSION_MASK, 0))


def legacy_size_bytes(record: Record, magic: int) -> int:
    """Size of a record as a message of format 0 or 1, its offset and length included."""
    key, value = record.key, record.value
    fixed = _HEAD.size + (_FORMAT_1.size if magic else _FORMAT_0.size) + _LENGTH.size
    return fixed + (len(key) if key else 0) + (len(value) if value else 0)


def _messages(entries: list[Record], magic: int, attributes: int, base_offset: int) -> bytearray:
    out = bytearray()
    for offset, timestamp, key, value, _headers in entries:
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
    return out
