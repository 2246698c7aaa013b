"""Record batches put together by hand, so that any field of them can be wrong."""

from __future__ import annotations

import struct
import time
import zlib
from dataclasses import dataclass, field

import cramjam
import fastcrc

# base offset, length, leader epoch, magic, crc
_LEAD = struct.Struct(">qiibI")
# attributes, last offset delta, base and max timestamp, producer id and epoch, base sequence,
# record count
_REST = struct.Struct(">hiqqqhii")

HEADER_BYTES = _LEAD.size + _REST.size
GZIP, ZSTD = 1, 4
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20

Pair = tuple[bytes | None, bytes | None]
ONE: tuple[Pair, ...] = ((b"k", b"v"),)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A format 2 batch; None fields follow from the records."""

    pairs: tuple[Pair, ...] = ONE
    timestamp_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    max_timestamp_ms: int | None = None
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    attributes: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    record_count: int | None = None
    last_offset_delta: int | None = None
    payload: bytes | None = None
    crc_mask: int = 0

    def to_bytes(self) -> bytes:
        """The batch as it stands on the wire, with the CRC that fits (unless `crc_mask` spoils it)."""
        count = len(self.pairs) if self.record_count is None else self.record_count
        last = len(self.pairs) - 1 if self.last_offset_delta is None else self.last_offset_delta
        payload = self.payload if self.payload is not None else plain_records(self.pairs)
        newest = self.timestamp_ms if self.max_timestamp_ms is None else self.max_timestamp_ms
        rest = _REST.pack(
            self.attributes, last, self.timestamp_ms, newest,
            self.producer_id, self.producer_epoch, self.base_sequence, count,
        )  # fmt: skip
        crc = fastcrc.crc32.iscsi(rest + payload) ^ self.crc_mask
        length = _LEAD.size + len(rest) + len(payload) - 12
        lead = _LEAD.pack(self.base_offset, length, self.leader_epoch, self.magic, crc)
        return lead + rest + payload


def batch(count: int = 1, value_bytes: int = 1, timestamp_ms: int | None = None) -> bytes:
    """A good batch of some records."""
    pairs: tuple[Pair, ...] = ((b"k", b"v" * value_bytes),) * count
    if timestamp_ms is None:
        return Batch(pairs=pairs).to_bytes()
    return Batch(pairs=pairs, timestamp_ms=timestamp_ms).to_bytes()


def compressed_batch(codec: int, pairs: tuple[Pair, ...] = ONE) -> bytes:
    """A batch compressed with gzip or zstd."""
    plain = plain_records(pairs)
    payload = cramjam.gzip.compress(plain) if codec == GZIP else cramjam.zstd.compress(plain)
    return Batch(pairs=pairs, attributes=codec, payload=bytes(payload)).to_bytes()


def plain_records(pairs: tuple[Pair, ...]) -> bytes:
    """Records one after the other, without a header of the batch."""
    whole = b""
    for index, (key, value) in enumerate(pairs):
        body = b"\0\0" + varint(index) + _nullable(key) + _nullable(value) + b"\0"
        whole += varint(len(body)) + body
    return whole


def old_message(magic: int, key: bytes | None = b"k", value: bytes | None = b"v") -> bytes:
    """One message of format 0 or 1."""
    body = struct.pack(">bb", magic, 0)
    if magic == 1:
        body += struct.pack(">q", int(time.time() * 1000))
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def varint(value: int) -> bytes:
    """A zigzag varint."""
    return unsigned_varint((value << 1) ^ (value >> 63))


def unsigned_varint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def first_batch(records: bytes) -> dict[str, int]:
    """Fields of the header of the first stored batch."""
    base_offset, length, leader_epoch, magic, _ = _LEAD.unpack_from(records)
    attributes, last_delta, base_ts, max_ts, *_ = _REST.unpack_from(records, _LEAD.size)
    return {
        "base_offset": base_offset,
        "size": length + 12,
        "leader_epoch": leader_epoch,
        "magic": magic,
        "attributes": attributes,
        "last_offset_delta": last_delta,
        "base_timestamp": base_ts,
        "max_timestamp": max_ts,
    }


def _nullable(part: bytes | None) -> bytes:
    return varint(-1) if part is None else varint(len(part)) + part
