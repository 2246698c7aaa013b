"""Produce 0 to 2 and Fetch 0 to 3, and the message sets that they carry, packed by hand: the codec
of the other tests begins after them.
"""

from __future__ import annotations

import gzip
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from compat_tests.clients.raw_connection import RawConnection
from compat_tests.wire.wire_client import MAX_BYTES

PRODUCE, FETCH = 0, 1
GZIP, ZSTD = 1, 4
LOG_APPEND_TIME = 0x08

_HEADER = struct.Struct(">hhi")  # key, version, correlation id


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of format 0 or 1; `crc_mask` spoils its checksum."""

    magic: int = 1
    offset: int = 0
    attributes: int = 0
    timestamp_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    crc_mask: int = 0

    def to_bytes(self) -> bytes:
        """As it stands in a message set."""
        body = struct.pack(">bb", self.magic, self.attributes)
        if self.magic:
            body += struct.pack(">q", self.timestamp_ms)
        for part in (self.key, self.value):
            body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
        crc = struct.pack(">I", zlib.crc32(body) ^ self.crc_mask)
        return struct.pack(">qi", self.offset, len(crc + body)) + crc + body


def message_set(*messages: Message) -> bytes:
    """Messages one after the other."""
    return b"".join(message.to_bytes() for message in messages)


def wrapped(*messages: Message, **changes: object) -> bytes:
    """Messages in one that is compressed with gzip, with relative offsets as a producer sets them."""
    inner = [replace(message, offset=index) for index, message in enumerate(messages)]
    wrapper = replace(
        messages[-1],
        offset=len(inner) - 1,
        attributes=GZIP,
        key=None,
        value=gzip.compress(message_set(*inner)),
    )
    return replace(wrapper, **changes).to_bytes()  # type: ignore[arg-type]


@dataclass(frozen=True)
class Stored:
    """One partition of an answer to Produce; what the version has not is None."""

    error_code: int
    base_offset: int
    log_append_time: int | None


@dataclass(frozen=True)
class Read:
    """One partition of an answer to Fetch."""

    partition: int
    error_code: int
    high_watermark: int
    records: bytes


def produce(
    wire: RawConnection, version: int, topic: str, records: bytes | None, acks: int = -1
) -> Stored:
    """Produce to partition 0."""
    payload = struct.pack(">i", -1) if records is None else _bytes(records)
    body = struct.pack(">hii", acks, 10_000, 1) + _text(topic)
    body += struct.pack(">ii", 1, 0) + payload
    answer = _call(wire, PRODUCE, version, body)
    at = 4 + 4 + 2 + len(topic.encode()) + 4 + 4
    error_code, base_offset = struct.unpack_from(">hq", answer, at)
    log_append_time = struct.unpack_from(">q", answer, at + 10)[0] if version >= 2 else None
    rest = len(answer) - at - 10 - (8 if version >= 2 else 0)
    assert rest == (4 if version else 0), f"{rest} bytes after the answer of version {version}"
    return Stored(error_code, base_offset, log_append_time)


def fetch(
    wire: RawConnection,
    version: int,
    topic: str,
    *offsets: int,
    max_bytes: int = MAX_BYTES,
    partition_max_bytes: int = MAX_BYTES,
    max_wait_ms: int = 0,
) -> list[Read]:
    """Fetch the partitions from 0 on, from these offsets."""
    body = struct.pack(">iii", -1, max_wait_ms, 1)
    if version >= 3:
        body += struct.pack(">i", max_bytes)
    body += struct.pack(">i", 1) + _text(topic) + struct.pack(">i", len(offsets))
    for partition, offset in enumerate(offsets):
        body += struct.pack(">iqi", partition, offset, partition_max_bytes)
    answer = _call(wire, FETCH, version, body)
    at = 4 + (4 if version else 0) + 4 + 2 + len(topic.encode())
    (count,) = struct.unpack_from(">i", answer, at)
    at += 4
    found = []
    for _ in range(count):
        partition, error_code, high_watermark, size = struct.unpack_from(">ihqi", answer, at)
        at += 18
        found.append(Read(partition, error_code, high_watermark, answer[at : at + size]))
        at += max(size, 0)
    assert at == len(answer), f"{len(answer) - at} bytes after the answer of version {version}"
    return found


def formats(records: bytes) -> list[tuple[int, int, int]]:
    """(format, offset, attributes) of each message of format 0 or 1, or batch of format 2.

    One that is cut off at the end is left out.
    """
    found = []
    position = 0
    while len(records) - position > 17:
        offset, length = struct.unpack_from(">qi", records, position)
        magic = records[position + 16]
        at = position + (17 if magic < 2 else 22)
        position += 12 + length
        if position <= len(records):
            found.append((magic, offset, records[at]))
    return found


def messages(records: bytes) -> Iterator[Message]:
    """The messages of format 0 or 1; those that gzip wraps have the offsets that readers give them.

    One that is cut off at the end is left out.
    """
    position = 0
    while len(records) - position > 17:
        offset, length = struct.unpack_from(">qi", records, position)
        if position + 12 + length > len(records):
            break
        magic, attributes = records[position + 16 : position + 18]
        at = position + 18
        timestamp_ms = struct.unpack_from(">q", records, at)[0] if magic else -1
        key, at = _part(records, at + (8 if magic else 0))
        value, at = _part(records, at)
        position += 12 + length
        message = Message(
            magic=magic, offset=offset, attributes=attributes, timestamp_ms=timestamp_ms,
            key=key, value=value,
        )  # fmt: skip
        if attributes & 7 != GZIP:
            yield message
            continue
        inner = list(messages(gzip.decompress(value or b"")))
        first = offset - inner[-1].offset if magic else 0
        yield from (replace(each, offset=first + each.offset) for each in inner)


def _part(data: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = struct.unpack_from(">i", data, at)
    at += 4
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _call(wire: RawConnection, key: int, version: int, body: bytes) -> bytes:
    correlation_id = 4711
    wire.send_frame(_HEADER.pack(key, version, correlation_id) + _text("old") + body)
    answer = wire.receive_frame()
    assert struct.unpack_from(">i", answer) == (correlation_id,)
    return answer


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
