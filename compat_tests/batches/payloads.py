"""Records that a client may send, right and wrong, and the payloads that hold them.

Every function takes the source of chance: the same one gives the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import cramjam

from compat_tests.wire.record_bytes import varint

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
_XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
_SKIPPABLE = struct.pack("<II", 0x184D2A50, 3) + b"abc"
_WORDS = [bytes([97 + n % 26]) * (n % 9) + b"%d" % n for n in range(64)]
_EXTREMES = (2**63 - 1, -(2**63), 2**62, -(2**31) - 1, 2**31, 2**40, -1)


def records(chance: Random, count: int, names: Sequence[str]) -> tuple[bytes, list[str]]:
    """`count` records one after the other, and what is odd about them: nothing of most, else what
    one of these names stands for.
    """
    odd: list[str] = []
    place = chance.randrange(count) if count and chance.random() < 0.3 else -1
    parts = []
    for index in range(count):
        if index == place:
            name = chance.choice(names)
            odd.append(name)
            parts.append(_ODD[name](chance, index))
        else:
            parts.append(record(chance, index))
    return b"".join(parts), odd


def record(chance: Random, offset: int, **fields: Any) -> bytes:
    """One record; what is not given in `fields` is drawn."""
    body = _body(chance, offset, **fields)
    return fields.get("length", varint(len(body))) + body


def _body(
    chance: Random,
    offset: int,
    *,
    attributes: int = 0,
    delta: bytes | None = None,
    at: bytes | None = None,
    key: bytes | None = None,
    value: bytes | None = None,
    headers: bytes | None = None,
    **_: Any,
) -> bytes:
    if delta is None:
        delta = varint(chance.choice((0, 0, 1, 5, 100, 70_000, -3)))
    return b"".join(
        (
            bytes([attributes]),
            delta,
            varint(offset) if at is None else at,
            _field(chance) if key is None else key,
            _field(chance) if value is None else value,
            _headers(chance) if headers is None else headers,
        )
    )


def _field(chance: Random) -> bytes:
    """A key or a value with its length; null at times."""
    draw = chance.random()
    if draw < 0.1:
        return b"\1"
    content = chance.choice(_WORDS)
    if draw > 0.97:
        content *= chance.choice((3, 30, 300))
    return varint(len(content)) + content


def _headers(chance: Random) -> bytes:
    if chance.random() < 0.8:
        return b"\0"
    count = chance.choice((1, 1, 2, 3, 70))
    return varint(count) + b"".join(b"\2h" + _field(chance) for _ in range(count))


def _long(value: int, extra: int) -> bytes:
    """A varint in more bytes than it needs."""
    encoded = varint(value)
    padding = bytes([0x80] * (extra - 1)) + b"\0"
    return encoded[:-1] + bytes([encoded[-1] | 0x80]) + padding


def _overflowing(chance: Random, size: int) -> bytes:
    """A varint of so many bytes with any bits."""
    return bytes(chance.randrange(128) | 0x80 for _ in range(size - 1)) + bytes(
        [chance.randrange(128)]
    )


def _wrong_length(chance: Random, offset: int) -> bytes:
    body = _body(chance, offset)
    return varint(len(body) + chance.choice((-1, 1, 2, -len(body), 1000, -2 * len(body)))) + body


def _bytes_after(chance: Random, offset: int) -> bytes:
    body = _body(chance, offset) + bytes(chance.randrange(1, 4))
    return varint(len(body)) + body


def _long_length(chance: Random, offset: int) -> bytes:
    body = _body(chance, offset)
    return _long(len(body), chance.randrange(1, 5)) + body


def _cut(chance: Random, offset: int) -> bytes:
    whole = record(chance, offset)
    return whole[: chance.randrange(len(whole))]


_ODD: dict[str, Callable[[Random, int], bytes]] = {
    "attributes": lambda c, n: record(c, n, attributes=c.randrange(256)),
    "huge delta": lambda c, n: record(c, n, delta=varint(c.choice(_EXTREMES))),
    "long delta": lambda c, n: record(c, n, delta=_long(5, c.randrange(1, 9))),
    "overflowing delta": lambda c, n: record(c, n, delta=_overflowing(c, c.randrange(9, 12))),
    "other offset": lambda c, n: record(c, n, at=varint(c.choice((n + 1, n - 1, 0, 7, -1, 2**30)))),
    "long offset": lambda c, n: record(c, n, at=_long(n, c.randrange(1, 5))),
    "overflowing offset": lambda c, n: record(c, n, at=_overflowing(c, c.randrange(5, 7))),
    "null key": lambda c, n: record(c, n, key=b"\1"),
    "negative key": lambda c, n: record(c, n, key=varint(-c.randrange(2, 300))),
    "long key": lambda c, n: record(c, n, key=_long(2, c.randrange(1, 5)) + b"ab"),
    "key beyond": lambda c, n: record(c, n, key=varint(c.randrange(20, 9_000)) + b"ab"),
    "overflowing key": lambda c, n: record(c, n, key=_overflowing(c, c.randrange(5, 7)) + b"ab"),
    "negative value": lambda c, n: record(c, n, value=varint(-c.randrange(2, 300))),
    "value beyond": lambda c, n: record(c, n, value=varint(c.randrange(20, 9_000)) + b"ab"),
    "overflowing value": lambda c, n: record(c, n, value=_overflowing(c, 5) + b"ab"),
    "more headers": lambda c, n: record(c, n, headers=varint(c.randrange(1, 90)) + b"\2h\2v"),
    "fewer headers": lambda c, n: record(c, n, headers=b"\2\2h\2v\2h\2v"),
    "negative headers": lambda c, n: record(c, n, headers=varint(-c.randrange(1, 90))),
    "long headers": lambda c, n: record(c, n, headers=_long(1, c.randrange(1, 5)) + b"\2h\2v"),
    "header without key": lambda c, n: record(c, n, headers=b"\2\1\2v"),
    "header without value": lambda c, n: record(c, n, headers=b"\2\2h\1"),
    "header of no UTF-8": lambda c, n: record(c, n, headers=b"\2\4\xff\xfe\2v"),
    "wrong length": _wrong_length,
    "long length": _long_length,
    "overflowing length": lambda c, n: _overflowing(c, c.randrange(5, 7)) + _body(c, n),
    "bytes after": _bytes_after,
    "cut": _cut,
    "garbage": lambda c, n: c.randbytes(c.randrange(1, 40)),
}


# Kafka stores them where they are not compressed: what follows in their partition cannot be read.
MISPLACED = ("other offset", "overflowing offset")
IN_PLACE = tuple(name for name in _ODD if name not in MISPLACED)
ALL = tuple(_ODD)


def packed(chance: Random, codec: int, plain: bytes) -> tuple[bytes, list[str]]:
    """The records as a client compresses them, and what is odd about it: nothing of most."""
    if not codec:
        return plain, []
    payload, way = _WAYS[codec](chance, plain)
    odd = [way] if way else []
    if chance.random() < 0.2:
        name = chance.choice(list(_HURT))
        odd.append(name)
        payload = _HURT[name](chance, codec, payload)
    return payload, odd


def _gzip(chance: Random, plain: bytes) -> tuple[bytes, str]:
    return bytes(cramjam.gzip.compress(plain, level=chance.randrange(1, 10))), ""


def _snappy(chance: Random, plain: bytes) -> tuple[bytes, str]:
    if chance.random() < 0.3:
        return bytes(cramjam.snappy.compress_raw(plain)), "raw"
    size = chance.choice((32_768, 32_768, 10))
    blocks = [plain[at : at + size] for at in range(0, len(plain), size)]
    packed_blocks = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return _XERIAL + b"".join(struct.pack(">i", len(b)) + b for b in packed_blocks), ""


def _lz4(chance: Random, plain: bytes) -> tuple[bytes, str]:
    linked = chance.random() < 0.15
    checksum = chance.random() < 0.3
    packer = cramjam.lz4.Compressor(
        level=chance.choice((1, 9, 12)), content_checksum=checksum, block_linked=linked
    )
    packer.compress(plain)
    return bytes(packer.finish()), "linked blocks" if linked else ""


def _zstd(chance: Random, plain: bytes) -> tuple[bytes, str]:
    return bytes(cramjam.zstd.compress(plain, level=chance.choice((-5, 1, 3, 19)))), ""


_WAYS = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}


def _flipped(chance: Random, codec: int, payload: bytes) -> bytes:
    hurt = bytearray(payload)
    hurt[chance.randrange(len(hurt))] ^= 1 << chance.randrange(8)
    return bytes(hurt)


def _twice(chance: Random, codec: int, payload: bytes) -> bytes:
    return payload + _WAYS[codec](chance, b"")[0]


_HURT = {
    "payload cut": lambda c, _, p: p[: c.randrange(len(p))],
    "a byte short": lambda _, __, p: p[:-1],
    "zeros after": lambda c, _, p: p + bytes(c.randrange(1, 20)),
    "garbage after": lambda c, _, p: p + c.randbytes(c.randrange(1, 20)),
    "all garbage": lambda c, _, p: c.randbytes(len(p)),
    "flipped bit": _flipped,
    "two streams": lambda _, __, p: p + p,
    "an empty stream after": _twice,
    "skippable frame first": lambda _, __, p: _SKIPPABLE + p,
    "skippable frame after": lambda _, __, p: p + _SKIPPABLE,
    "no payload": lambda _, __, ___: b"",
}
