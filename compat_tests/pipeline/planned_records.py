"""Records that follow from a seed: what belongs at each offset of each partition is computed, and
need not be remembered.

Every kind a job must keep is among them: keys that are null, empty and repeated; tombstones, empty
and large values; headers that are missing, doubled, null, empty and not ASCII; times that lag
behind by hours and days. Pure.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

PARTITIONS_PER_TOPIC = 4
TOPICS = ("clicks", "orders.eu", "state_of-things")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

FIRST_TIMESTAMP_MS = 1_767_225_600_000  # 2026-01-01T00:00Z: past, so that no broker refuses it
SPAN_MS = 3 * 3_600_000
CREATE_TIME = 0
ABORTED_RECORDS = 3  # of an aborted transaction; its marker takes one more offset

_HOUR_MS = 3_600_000
_MASK = (1 << 64) - 1
_TEXT_BYTES = 1 << 16
_LARGE_BYTES = 40_000
_FIXED = Struct(">qqb")
_LENGTH = Struct(">i")
_NULL = _LENGTH.pack(-1)

Headers = tuple[tuple[str, bytes | None], ...]


class PlannedRecord(NamedTuple):
    """One record; `headers` is None where there are none."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None


@dataclass(frozen=True)
class RecordPlan:
    """What is to be written: `records` in all, shared out evenly over 12 partitions. With
    `aborted_every` an aborted transaction stands between so many records and the next ones.
    """

    seed: int
    records: int
    aborted_every: int = 0

    def partitions(self) -> list[tuple[str, int]]:
        """Topics and partitions, in a fixed order."""
        return [(topic, number) for topic in TOPICS for number in range(PARTITIONS_PER_TOPIC)]

    def count(self, topic: str, partition: int) -> int:
        """How many records a partition gets."""
        place = self.partitions().index((topic, partition))
        share, rest = divmod(self.records, len(self.partitions()))
        return share + (place < rest)

    def offset_of(self, number: int) -> int:
        """Where the record of that number is, in any partition."""
        aborted = number // self.aborted_every if self.aborted_every else 0
        return number + aborted * (ABORTED_RECORDS + 1)

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset after the last record."""
        count = self.count(topic, partition)
        return self.offset_of(count - 1) + 1 if count else 0

    def codec(self, topic: str, partition: int) -> str:
        """How a partition's batches are compressed."""
        return CODECS[self.partitions().index((topic, partition)) % len(CODECS)]

    def stretch(self, topic: str, partition: int, start: int, end: int) -> Iterator[PlannedRecord]:
        """The records of the numbers [start, end)."""
        salt, text, lengths = _material(self.seed, topic, partition)
        step_ms = SPAN_MS / max(1, self.count(topic, partition))
        for number in range(start, end):
            mixed = ((number + 1) * 0x9E3779B97F4A7C15 ^ salt) & _MASK
            mixed = ((mixed ^ (mixed >> 31)) * 0xBF58476D1CE4E5B9) & _MASK
            mixed ^= mixed >> 29
            yield PlannedRecord(
                self.offset_of(number),
                FIRST_TIMESTAMP_MS + int(number * step_ms) - _delay_ms(mixed >> 48),
                CREATE_TIME,
                _key(mixed),
                _value(number, mixed >> 16, text, lengths),
                _headers(number, mixed >> 40),
            )


@functools.cache
def _material(seed: int, topic: str, partition: int) -> tuple[int, bytes, list[int]]:
    """Salt, text that values are cut from, and their lengths."""
    draw = random.Random(f"{seed} {topic} {partition}")
    lengths = [draw.randrange(10, 180) for _ in range(255)] + [4_000]
    return draw.getrandbits(64), draw.randbytes(_TEXT_BYTES), lengths


def _delay_ms(bits: int) -> int:
    """One record in 64 is late by up to four hours, one in 4,096 by two days."""
    if bits & 63:
        return 0
    return 48 * _HOUR_MS if (bits >> 6) & 63 == 0 else (1 + ((bits >> 12) & 3)) * _HOUR_MS


def _key(bits: int) -> bytes | None:
    kind = bits & 15
    if kind == 0:
        return None
    return b"" if kind == 1 else b"key-%d" % ((bits >> 4) & 4095)


def _value(number: int, bits: int, text: bytes, lengths: list[int]) -> bytes | None:
    kind = bits & 31
    if kind == 0:
        return None
    if kind == 1:
        return b""
    length = lengths[(bits >> 5) & 255]
    if (bits >> 13) & 0x3FFF == 0:
        length = _LARGE_BYTES
    start = (bits >> 5) % (_TEXT_BYTES - _LARGE_BYTES)
    return b"%d:" % number + text[start : start + length]


_FIXED_HEADERS: Mapping[int, Headers] = {
    1: (("trace", b"4bf92f3577b34da6"),),
    2: (("a", b"1"), ("a", b"2"), ("a", b"1")),
    3: (("a", None), ("b", b""), ("a", b"\x00\xff")),
    4: (("", b"no name"), ("größe", "weiß".encode()), ("\U0001f40d", None)),
}


def _headers(number: int, bits: int) -> Headers | None:
    kind = bits & 15
    if kind == 5:
        return (("number", b"%d" % number), ("number", b"%d" % (number * 7)))
    return _FIXED_HEADERS.get(kind)


def encoded(record: PlannedRecord) -> bytes:
    """The whole envelope as bytes: two records are encoded alike only when they are alike."""
    parts = [_FIXED.pack(record.offset, record.timestamp_ms, record.timestamp_type)]
    _add(parts, record.key)
    _add(parts, record.value)
    parts.append(_NULL if record.headers is None else _LENGTH.pack(len(record.headers)))
    for name, value in record.headers or ():
        _add(parts, name.encode())
        _add(parts, value)
    return b"".join(parts)


def _add(parts: list[bytes], field: bytes | None) -> None:
    if field is None:
        parts.append(_NULL)
    else:
        parts.append(_LENGTH.pack(len(field)))
        parts.append(field)


class EnvelopeHash:
    """Hash over the records of a partition, in their order."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)

    def add(self, record: PlannedRecord) -> None:
        """The next record."""
        self._hash.update(encoded(record))

    def hexdigest(self) -> str:
        """The hash so far."""
        return self._hash.hexdigest()


def planned_hash(plan: RecordPlan, topic: str, partition: int) -> str:
    """Hash of all records of a partition."""
    found = EnvelopeHash()
    for record in plan.stretch(topic, partition, 0, plan.count(topic, partition)):
        found.add(record)
    return found.hexdigest()
