"""Batches as clients may send them, and as nobody should: each one is good but for what it says is
odd about it. Formats 2, 1 and 0.

The same seed gives the same batches, but for the times in them, which count from now.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import fastcrc

from compat_tests.batches.payloads import ALL, CODECS, IN_PLACE, NONE, packed, record, records
from compat_tests.wire.record_bytes import varint

_HEADER = struct.Struct(">hiqqqhii")
_LEAD = struct.Struct(">qiibI")
NEW_VERSION, _OLD_VERSION = 8, 2  # of Produce
_EXTREMES = (-1, -2, 0, 1, 2**63 - 1, -(2**63), 2**31 - 1, -(2**31))


class Generated(NamedTuple):
    """A batch, or what is sent instead of one."""

    data: bytes
    odd: tuple[str, ...]
    count: int  # of records, as the header has it
    version: int  # of the Produce request
    is_alone: bool  # whole requests are refused for such a one

    @property
    def label(self) -> str:
        return ", ".join(self.odd) or "good"


class Header(NamedTuple):
    """The fields of a header that the checksum covers."""

    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int


class Lead(NamedTuple):
    """The fields of a header before that."""

    base_offset: int = 0
    length_error: int = 0
    leader_epoch: int = -1
    magic: int = 2
    crc_mask: int = 0


def batch(chance: Random, now_ms: int) -> Generated:
    """A batch of format 2."""
    codec = chance.choice(CODECS) if chance.random() < 0.7 else NONE
    count = chance.choice((1, 1, 2, 3, 5, 70)) if chance.random() < 0.98 else 0
    plain, odd = records(chance, count, ALL if codec else IN_PLACE)
    if chance.random() < 0.04:
        odd.append("bytes after the records")
        plain += bytes(chance.randrange(1, 9))
    payload, odd_payload = packed(chance, codec, plain)
    odd += odd_payload
    base_ms = now_ms - chance.choice((0, 0, 1_000, 700_000_000))
    newest = base_ms + chance.choice((0, 5, 100, 70_000))
    header = Header(codec, count - 1, base_ms, newest, -1, -1, -1, count)
    lead = Lead()
    if chance.random() < 0.3:
        name = chance.choice(list(_FIELDS))
        odd.append(name)
        header = _FIELDS[name](chance, header)
    is_alone = False
    if chance.random() < 0.05:
        name = chance.choice(list(_LEADS))
        odd.append(name)
        lead = _LEADS[name](chance, lead)
        is_alone = name in ("magic", "length")
    data = joined(lead, header, payload)
    if chance.random() < 0.03:
        name = chance.choice(list(_AROUND))
        odd.append(name)
        data = _AROUND[name](chance, data)
        is_alone = True
    return Generated(data, tuple(odd), header.count, NEW_VERSION, is_alone)


def joined(lead: Lead, header: Header, payload: bytes) -> bytes:
    """The batch with the checksum that fits, unless the lead says otherwise."""
    rest = _HEADER.pack(*header) + payload
    crc = fastcrc.crc32.iscsi(rest) ^ lead.crc_mask
    length = _LEAD.size + len(rest) - 12 + lead.length_error
    return _LEAD.pack(lead.base_offset, length, lead.leader_epoch, lead.magic, crc) + rest


def misplaced(chance: Random, now_ms: int) -> Generated:
    """An uncompressed batch whose offsets do not follow each other; else it is good."""
    count = chance.choice((1, 2, 3, 70))
    odd = chance.randrange(count)
    plain = b"".join(
        record(chance, number, at=varint(chance.choice((number + 1, number - 1, 7_000, -1, 2**30))))
        if number == odd
        else record(chance, number)
        for number in range(count)
    )
    header = Header(NONE, count - 1, now_ms, now_ms, -1, -1, -1, count)
    return Generated(joined(Lead(), header, plain), ("other offset",), count, NEW_VERSION, False)


def idempotent(chance: Random, now_ms: int, place: int) -> Generated:
    """A good batch of a producer that counts its sequences, not always rightly; `place` says which
    partition it is for, whose producers are its own.
    """
    count = chance.choice((1, 2, 3))
    plain, _ = records(_NEVER_ODD, count, ALL)
    producer_id = 4_000 + 10 * place + chance.randrange(4)
    sequence = chance.choice((0, 0, 1, 2, 3, 4, 5, 6, 9, 2**31 - 1, 2**31 - 2))
    epoch = chance.choice((0, 0, 0, 0, 1, 2))
    header = Header(0, count - 1, now_ms, now_ms, producer_id, epoch, sequence, count)
    return Generated(joined(Lead(), header, plain), ("sequences",), count, NEW_VERSION, False)


class _Even(Random):
    """Draws what makes a plain record."""

    def random(self) -> float:
        return 0.5


_NEVER_ODD = _Even(0)


def _another_count(chance: Random, header: Header) -> Header:
    count = chance.choice(
        (header.count + 1, max(header.count - 1, 1), header.count + 70, 2**31 - 1)
    )
    return header._replace(count=count, last_offset_delta=count - 1)


_FIELDS: dict[str, Callable[[Random, Header], Header]] = {
    "unknown bits": lambda c, h: h._replace(
        attributes=h.attributes | c.choice((0x40, 0x80, 0x4000))
    ),
    "log append time": lambda _, h: h._replace(attributes=h.attributes | 0x08),
    "control": lambda _, h: h._replace(attributes=h.attributes | 0x20),
    "another codec": lambda c, h: h._replace(attributes=c.randrange(8)),
    "last offset": lambda c, h: h._replace(
        last_offset_delta=c.choice((-1, 0, 1, h.count, h.count + 5, 2**31 - 1, -(2**31)))
    ),
    "base time": lambda c, h: h._replace(base_timestamp=c.choice(_EXTREMES)),
    "largest time": lambda c, h: h._replace(
        max_timestamp=c.choice((*_EXTREMES, h.base_timestamp - 9, h.base_timestamp + 10**9))
    ),
    "no times": lambda _, h: h._replace(base_timestamp=-1, max_timestamp=-1),
    "producer without sequence": lambda c, h: h._replace(
        producer_id=c.choice((0, 77)), producer_epoch=c.choice((-1, 0))
    ),
    "sequence without producer": lambda c, h: h._replace(base_sequence=c.choice((0, 7, -5))),
    "count": lambda c, h: h._replace(count=c.choice((-1, 0, h.count + 1, h.count - 1, 2**31 - 1))),
    "count and last offset": _another_count,
}  # fmt: skip

_LEADS: dict[str, Callable[[Random, Lead], Lead]] = {
    "base offset": lambda c, lead: lead._replace(base_offset=c.choice((1, 77, -1, 2**62))),
    "leader epoch": lambda c, lead: lead._replace(leader_epoch=c.choice((0, 9, -7, 2**31 - 1))),
    "magic": lambda c, lead: lead._replace(magic=c.choice((0, 1, 3, 127, -1))),
    "checksum": lambda c, lead: lead._replace(crc_mask=1 << c.randrange(32)),
    "length": lambda c, lead: lead._replace(
        length_error=c.choice((-1, 1, -20, 20, -(2**30), 2**30))
    ),
}

_AROUND: dict[str, Callable[[Random, bytes], bytes]] = {
    "cut": lambda c, data: data[: c.randrange(len(data))],
    "zeros after the batch": lambda c, data: data + bytes(c.choice((1, 5, 12, 20, 70))),
    "garbage after the batch": lambda c, data: data + c.randbytes(c.choice((1, 11, 12, 20, 70))),
    "two batches": lambda _, data: data + data,
    "garbage": lambda c, data: c.randbytes(c.randrange(1, 100)),
    "nothing": lambda _, __: b"",
}


def old_set(chance: Random, now_ms: int, version: int = _OLD_VERSION) -> Generated:
    """Messages of format 0 or 1, for versions of Produce before batches; `version` may be newer."""
    magic = chance.choice((0, 1))
    codec = chance.choice(CODECS[:4]) if chance.random() < 0.6 else NONE
    count = chance.choice((1, 1, 2, 3, 5))
    odd: list[str] = [f"format {magic}"]
    first = chance.choice((0, 0, 0, 5))
    if first:
        odd.append("first offset")
    plain = b"".join(_message(chance, magic, n + first, now_ms, odd) for n in range(count))
    if not codec:
        return Generated(plain, tuple(odd), count, version, is_alone=not _UNFRAMED.isdisjoint(odd))
    payload, odd_payload = packed(chance, codec, plain)
    wrapper = _old_message(
        magic, codec, now_ms, None, payload, offset=chance.choice((0, count - 1, count - 1, 9))
    )
    return Generated(wrapper, (*odd, *odd_payload), count, version, False)


def _message(chance: Random, magic: int, offset: int, now_ms: int, odd: list[str]) -> bytes:
    key, value = (chance.choice((None, b"", b"k", b"value" * 3)) for _ in range(2))
    time_ms = now_ms + chance.choice((0, 0, 3, -9, -700_000_000))
    message = _old_message(magic, 0, time_ms, key, value, offset=offset)
    if chance.random() < 0.9:
        return message
    name = chance.choice(list(_OLD_ODD))
    odd.append(name)
    return _OLD_ODD[name](chance, message)


_OLD_ODD: dict[str, Callable[[Random, bytes], bytes]] = {
    "old checksum": lambda _, m: m[:12] + bytes([m[12] ^ 1]) + m[13:],
    "old length": lambda c, m: m[:8] + struct.pack(">i", c.choice((0, 13, 14, 70))) + m[12:],
    "old cut": lambda c, m: m[: c.randrange(len(m))],
    "old magic": lambda c, m: m[:16] + bytes([c.choice((0, 1, 2, 3))]) + m[17:],
    "old attributes": lambda c, m: _sealed(m[:17] + bytes([c.choice((1, 4, 5, 7, 8))]) + m[18:]),
    "old value length": lambda c, m: _sealed(m[:-8] + c.randbytes(8)) if len(m) > 40 else m,
}


_UNFRAMED = {"old length", "old cut", "old magic", "old value length"}


def _old_message(
    magic: int, attributes: int, time_ms: int, key: bytes | None, value: bytes | None, offset: int
) -> bytes:
    body = struct.pack(">bb", magic, attributes)
    if magic:
        body += struct.pack(">q", time_ms)
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def _sealed(message: bytes) -> bytes:
    """With the checksum that fits."""
    return message[:12] + struct.pack(">I", zlib.crc32(message[16:])) + message[16:]
