"""The records of a batch that a client sent, checked against its header: in one pass over all of
them, or by a look at the first bytes and the last record.

Law: nothing is built or copied per record, and any bytes end in an answer or in
KafkaError(INVALID_RECORD). Offsets of a produced batch have no holes, so their deltas are compared,
and decoded only if they differ or a client wrote them in more bytes than needed. A batch that
`tail_fits` does not confirm is walked; it never refuses one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from kbroker.errors import KafkaError
from kbroker.record.compression import most_unpacked_bytes
from kbroker.record.default_record import (
    Bytes,
    invalid,
    read_varint,
    skim_headers,
    skim_record,
    varint_bytes,
)
from kbroker.record.record_batch import HEADER_SIZE, BatchHeader

# A length and six fields, of one byte each: length, attributes, time, offset, key, value, headers.
SMALLEST_RECORD_BYTES: Final = 7

DELTAS_AT_ONCE: Final = 64  # deltas whose varints share all bytes after the first
_TAIL_BYTES: Final = 1024  # how much larger than the average record the last one may be
_TAIL_TRIES: Final = 8


Plain = bytes | bytearray  # records that were unpacked


class WalkedRecords(NamedTuple):
    """Facts about the records of a batch that its header may get wrong."""

    least_timestamp: int
    max_timestamp: int
    keyless: int  # how many have no key
    misplaced: int  # how many have another offset than the one after the record before


def check_record_count(header: BatchHeader, size_bytes: int) -> None:
    """INVALID_RECORD if a batch of this many bytes cannot hold the records it claims."""
    room = size_bytes - HEADER_SIZE
    codec = header.compression
    if codec:
        room = most_unpacked_bytes(codec, room)
    if header.record_count * SMALLEST_RECORD_BYTES > room:
        invalid(f"{header.record_count} records in a batch of {size_bytes} bytes")


def walk_records(header: BatchHeader, plain: Plain) -> WalkedRecords:
    """Walk all records of a produced batch, unpacked as `plain`. Raises KafkaError(INVALID_RECORD)
    if count or lengths are not those of the header.
    """
    check_claims(header)
    count = header.record_count
    first_delta, _, _, _ = skim_record(plain, 0)
    walked = [first_delta, first_delta, 0, 0]
    at = 0
    try:
        for first in range(0, count, DELTAS_AT_ONCE):
            at = walk_some(plain, at, range(first, min(first + DELTAS_AT_ONCE, count)), walked)
    except IndexError:
        invalid("record cut short")
    if at != len(plain):
        invalid(f"{len(plain) - at} bytes after the last record")
    return walked_records(header, walked)


def check_claims(header: BatchHeader) -> None:
    """INVALID_RECORD if count and last offset contradict each other, or there are no records."""
    count = header.record_count
    if count <= 0 or count != header.last_offset_delta + 1:
        invalid(f"{count} records with last offset delta {header.last_offset_delta}")


def walked_records(header: BatchHeader, walked: list[int]) -> WalkedRecords:
    """Turn the deltas that `walk_some` has found in all records into times."""
    base = header.base_timestamp
    return WalkedRecords(base + walked[0], base + walked[1], walked[2], walked[3])


def tail_fits(header: BatchHeader, batch: bytearray | memoryview) -> bool:
    """True if an uncompressed batch ends with a record that has the last offset and the largest
    time of its header, as batches of honest producers do. False proves nothing: the last record may
    be older than another one, or hard to find.
    """
    count = header[12]
    if count == 1:
        return _only_record_fits(header, batch)
    if count < 1:
        return False
    time_delta, offset_delta = header[8] - header[7], header[6]
    size_bytes = -(-(len(batch) - HEADER_SIZE) // count)
    start = _record_start(size_bytes, time_delta, offset_delta)
    at = len(batch) - size_bytes
    if start and bytes(batch[at : at + len(start)]) == start:  # records of one size are common
        return True
    tail = bytes(batch[-(len(batch) // count + _TAIL_BYTES) :])
    mark = _mark(time_delta, offset_delta)
    size = len(tail)
    at = tail.rfind(mark, 1)
    tries = _TAIL_TRIES
    while at > 0 and tries:
        length = _varint(size - at)
        if tail.startswith(length, at - len(length)):
            return True
        at = tail.rfind(mark, 1, at)
        tries -= 1
    return False


def _only_record_fits(header: BatchHeader, batch: Bytes) -> bool:
    size = len(batch)
    mark = _mark(header[8] - header[7], 0)
    try:
        length, at = read_varint(batch, HEADER_SIZE)
        key_at = at + len(mark)
        if at + length != size or batch[at:key_at] != mark:
            return False
        at = _behind_bytes(batch, _behind_bytes(batch, key_at))
        return (batch[at] == 0 and at + 1 == size) or skim_headers(batch, at) == size
    except (IndexError, KafkaError):
        return False


def _behind_bytes(batch: Bytes, at: int) -> int:
    """The position after a key or value and its length, or null. IndexError past the end."""
    twice = batch[at]
    if twice >= 0x80:
        length, at = read_varint(batch, at)
        return at + length if length > 0 else at
    return at + 1 if twice & 1 else at + 1 + (twice >> 1)


# The same few lengths, offsets and time spans come again and again.
@lru_cache(maxsize=4096)
def _record_start(size_bytes: int, time_delta: int, offset_delta: int) -> bytes:
    """The start of a record of this size, up to its key; empty if there is none."""
    mark = _mark(time_delta, offset_delta)
    for prefix in range(1, 6):
        length = _varint(size_bytes - prefix)
        if len(length) == prefix and size_bytes - prefix >= len(mark):
            return length + mark
    return b""


@lru_cache(maxsize=4096)
def _mark(time_delta: int, offset_delta: int) -> bytes:
    """Attributes, time and offset: the bytes between the length of a record and its key."""
    return b"\0" + _varint(time_delta) + _varint(offset_delta)


_varint = lru_cache(maxsize=4096)(varint_bytes)


def walk_some(plain: Plain, at: int, deltas: range, walked: list[int]) -> int:
    """Walk the records with these offset deltas, from `at` on; the position after them. `walked`:
    least and largest time delta, records without key, records with another offset delta.

    Nearly all varints are short, and read in place. IndexError past the end.
    """
    least, most, keyless, misplaced = walked
    low_byte, tail = _offset_bytes(deltas.start)
    behind = len(tail)
    for low in range(low_byte, low_byte + 2 * len(deltas), 2):
        length = plain[at]
        if length < 0x80:
            at += 1
        else:
            length, at = _doubled_length(plain, at)
        twice_end = 2 * at + length
        delta = plain[at + 1]
        at += 2
        if delta < 0x80:
            delta = _SIGNED[delta]
        else:
            delta, at = read_varint(plain, at - 1, 10)
        if not least <= delta <= most:
            least, most = min(least, delta), max(most, delta)
        if plain[at] == low and plain[at + 1 : at + 1 + behind] == tail:
            at += 1 + behind
        else:
            found, at = read_varint(plain, at)
            misplaced += found != deltas.start + (low - low_byte) // 2
        length = plain[at]
        keyless += length & 1  # the sign, however long the varint is
        at = at + _BEHIND[length] if length < 0x80 else _behind_field(plain, at)
        length = plain[at]
        at = at + _BEHIND[length] if length < 0x80 else _behind_field(plain, at)
        at = skim_headers(plain, at) if plain[at] else at + 1
        if 2 * at != twice_end:
            invalid("record of another length than its fields")
    walked[:] = least, most, keyless, misplaced
    return at


def _doubled_length(plain: Plain, at: int) -> tuple[int, int]:
    """The zigzag varint of a record's length, and where it ends; a bad one is odd or negative."""
    high = plain[at + 1]
    if high < 0x80:
        return plain[at] & 0x7F | high << 7, at + 2
    length, at = read_varint(plain, at)
    return 2 * length, at


def _behind_field(plain: Plain, at: int) -> int:
    """The position after a field that begins with its length; a negative one stands for null."""
    high = plain[at + 1]
    if high < 0x80:
        length = plain[at] & 0x7F | high << 7
        return at + 2 if length & 1 else at + 2 + (length >> 1)
    length, at = read_varint(plain, at)
    return at + length if length > 0 else at


def _offset_bytes(delta: int) -> tuple[int, bytes]:
    """The varint of an offset delta: its first byte, and what follows."""
    encoded = varint_bytes(delta)
    return encoded[0], encoded[1:]


_SIGNED: Final = tuple(value >> 1 ^ -(value & 1) for value in range(0x80))
# By the one byte of a field's length: how far it is to the next field.
_BEHIND: Final = tuple(1 if value & 1 else 1 + (value >> 1) for value in range(0x80))
