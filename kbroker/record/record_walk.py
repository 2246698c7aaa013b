"""The records of a batch that a client sent, walked and checked against its header.

Law: nothing is built or copied per record, and any bytes end in an answer or in
KafkaError(INVALID_RECORD). Offsets of a produced batch have no holes, so their deltas are compared,
and decoded only if they differ or a client wrote them in more bytes than needed. Records that all
have the lengths of the first of them are compared instead, all at once: `_walk_alike` answers as
`_walk_each` would, or not at all.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from kbroker.errors import KafkaError
from kbroker.model import new_tuple
from kbroker.record.compression import most_unpacked_bytes
from kbroker.record.default_record import (
    invalid,
    read_varint,
    varint_bytes,
)
from kbroker.record.record_batch import HEADER_SIZE, BatchHeader

# A length and six fields, of one byte each: length, attributes, time, offset, key, value, headers.
SMALLEST_RECORD_BYTES: Final = 7

DELTAS_AT_ONCE: Final = 64  # deltas whose varints share all bytes after the first
_TWO_BYTE_DELTAS: Final = 8192  # and below, from `DELTAS_AT_ONCE` on
_FEW: Final = 3  # records that are walked sooner than compared
# Steps say how long a walk takes: one for a record by itself, for four headers, or three slices.
_ALIKE_STEPS: Final = 5  # beside the slices, for records that are compared, and one for 32 of them
_MOST_STEPS: Final = 17 * DELTAS_AT_ONCE  # of one `walk_some`
RECORDS_PER_STEP: Final = DELTAS_AT_ONCE // _ALIKE_STEPS  # at most

Plain = bytes | bytearray  # records that were unpacked


class LongWalkError(Exception):
    """More records, or headers, than may be walked at once; `steps` have been taken at most."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        self.steps = steps


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


def walk_records(header: BatchHeader, plain: Plain, most_steps: int) -> tuple[WalkedRecords, int]:
    """Walk all records of a produced batch, unpacked as `plain`; how many steps it took is the
    second of both. Raises KafkaError(INVALID_RECORD) if count or lengths are not those of the
    header, and LongWalkError as soon as it looks like more than `most_steps`.
    """
    check_claims(header)
    count = header.record_count
    walked = nothing_walked()
    at = 0
    try:
        end = 0
        while end < count:
            first, end = end, min(end + DELTAS_AT_ONCE, count)
            at = walk_some(plain, at, range(first, end), walked)
            if not first and count > end:  # most are alike to the end
                others = range(end, min(count, _TWO_BYTE_DELTAS))
                if after := _walk_alike(plain, at, others, walked):
                    at, end = after, others.stop
            if walked[4] * count > most_steps * end:
                raise LongWalkError(walked[4])
    except IndexError:
        invalid("record cut short")
    if at != len(plain):
        invalid(f"{len(plain) - at} bytes after the last record")
    return walked_records(header, walked), walked[4]


def check_claims(header: BatchHeader) -> None:
    """INVALID_RECORD if count and last offset contradict each other, or there are no records."""
    count = header.record_count
    if count <= 0 or count != header.last_offset_delta + 1:
        invalid(f"{count} records with last offset delta {header.last_offset_delta}")


def nothing_walked() -> list[int]:
    """The beginning of `walked` for `walk_some`: no delta is as large as the least one, or as small
    as the largest one.
    """
    return [2**63, -(2**63), 0, 0, 0]


def walked_records(header: BatchHeader, walked: list[int]) -> WalkedRecords:
    """Turn the deltas that `walk_some` has found in all records into times."""
    base = header.base_timestamp
    return new_tuple(WalkedRecords, (base + walked[0], base + walked[1], walked[2], walked[3]))


def walk_some(plain: Plain, at: int, deltas: range, walked: list[int]) -> int:
    """Walk the records with these offset deltas, `DELTAS_AT_ONCE` at most, from `at` on; the
    position after them. `walked`: least and largest time delta, records without key, records with
    another offset delta, steps. IndexError past the end; LongWalkError if a record has 64 headers.
    """
    end = _walk_alike(plain, at, deltas, walked) if len(deltas) > _FEW else 0
    return end or _walk_each(plain, at, deltas, walked)


def _walk_alike(plain: Plain, start: int, deltas: range, walked: list[int]) -> int:
    """Walk these records if all have the lengths of the first one, the offset deltas that are
    expected and time deltas of one byte, as most have. The position after them; 0 leaves everything
    as it was.
    """
    columns = _offset_columns(deltas.start)
    shared: list[int] = []  # positions in the first record of bytes that must be those of all
    try:
        second = _pass_field(plain, start, shared)
        offset_at = shared[-1] + 3
        key_at = offset_at + len(columns)
        if plain[second] != plain[start] or _pass_fields(plain, key_at, shared) != second:
            return 0
    except (IndexError, KafkaError):
        return 0
    count, size = len(deltas), second - start
    end = start + count * size
    times = plain[offset_at - 1 : end : size]
    if end > len(plain) or not times.isascii():
        return 0
    for at, column in enumerate(columns, offset_at):
        if plain[at:end:size] != column[:count]:
            return 0
    for at in shared:
        if plain[at:end:size] != plain[at : at + 1] * count:
            return 0
    for time in times[:1] if times == times[:1] * count else set(times):
        delta = _SIGNED[time]
        if not walked[0] <= delta <= walked[1]:
            walked[:2] = min(walked[0], delta), max(walked[1], delta)
    walked[2] += count * (plain[key_at] & 1)
    walked[4] += _ALIKE_STEPS + len(shared) // 3 + count // 32
    return end


def _pass_field(plain: Plain, at: int, lengths: list[int]) -> int:
    """The position after what begins with its length, of which the positions are noted."""
    lengths.append(at)
    length = plain[at]
    if length < 0x80:
        return at + _BEHIND[length]
    high = plain[at + 1]
    if high < 0x80 and not length & 1:
        lengths.append(at + 1)
        return at + 2 + (length + (high << 7) - 0x80 >> 1)
    length, behind = read_varint(plain, at)
    lengths.extend(range(at + 1, behind))
    return behind + length if length > 0 else behind


def _pass_fields(plain: Plain, at: int, lengths: list[int]) -> int:
    """The position after key, value and headers, whose lengths are noted; 0 if the headers are too
    many to compare, or broken.
    """
    at = _pass_field(plain, _pass_field(plain, at, lengths), lengths)
    lengths.append(at)
    twice = plain[at]
    if twice & 0x81:
        return 0
    at += 1
    for _ in range(twice >> 1):
        if plain[at] & 1:
            return 0
        at = _pass_field(plain, _pass_field(plain, at, lengths), lengths)
    return at


def _walk_each(plain: Plain, at: int, deltas: range, walked: list[int]) -> int:  # noqa: C901, PLR0912  a call per field would double the time
    """Walk the records one after the other. Nearly all varints are short, and read in place."""
    least, most, keyless, misplaced, steps = walked
    low_byte, tail = _offset_bytes(deltas.start)
    offset_bytes = 1 + len(tail)
    second = tail[0] if tail else -1
    further = tail[1:]
    last_time = -1
    for low in range(low_byte, low_byte + 2 * len(deltas), 2):
        length = plain[at]
        if length < 0x80:
            at += 1
        elif (high := plain[at + 1]) < 0x80:
            length += (high << 7) - 0x80
            at += 2
        else:
            length, at = read_varint(plain, at)
            length *= 2
        twice_end = 2 * at + length
        delta = plain[at + 1]
        at += 2
        if delta != last_time:
            if delta < 0x80:
                last_time = delta
                delta = _SIGNED[delta]
            else:
                delta, at = read_varint(plain, at - 1, 10)
            if not least <= delta <= most:
                least, most = min(least, delta), max(most, delta)
        if (
            plain[at] == low
            and (not tail or plain[at + 1] == second)
            and (not further or plain[at + 2 : at + offset_bytes] == further)
        ):
            at += offset_bytes
        else:
            found, at = read_varint(plain, at)
            misplaced += found != deltas.start + (low - low_byte) // 2
        length = plain[at]
        keyless += length & 1  # the sign, however long the varint is
        at = at + _BEHIND[length] if length < 0x80 else _behind_field(plain, at)
        length = plain[at]
        if length < 0x80:
            at += _BEHIND[length]
        elif (high := plain[at + 1]) < 0x80 and not length & 1:
            at += 2 + (length + (high << 7) - 0x80 >> 1)
        else:
            at = _behind_field(plain, at)
        if plain[at]:
            steps += plain[at] >> 3
            at = _behind_headers(plain, at)
        else:
            at += 1
        if 2 * at != twice_end:
            invalid("record of another length than its fields")
    walked[:] = least, most, keyless, misplaced, steps + len(deltas)
    return at


def _behind_field(plain: Plain, at: int) -> int:
    """The position after a field that begins with its length; a negative one stands for null."""
    high = plain[at + 1]
    if high < 0x80:
        length = plain[at] & 0x7F | high << 7
        return at + 2 if length & 1 else at + 2 + (length >> 1)
    length, at = read_varint(plain, at)
    return at + length if length > 0 else at


def _behind_headers(plain: Plain, at: int) -> int:
    """The position after the headers whose count is at `at`."""
    twice = plain[at]
    if twice & 0x80:
        raise LongWalkError(_MOST_STEPS)
    if twice & 1:
        invalid("negative number of headers")
    at += 1
    for _ in range(twice >> 1):
        length = plain[at]
        if length & 1:
            invalid("header without key")
        at = at + _BEHIND[length] if length < 0x80 else _behind_field(plain, at)
        length = plain[at]
        at = at + _BEHIND[length] if length < 0x80 else _behind_field(plain, at)
    return at


@lru_cache(maxsize=256)
def _offset_bytes(delta: int) -> tuple[int, bytes]:
    """The varint of an offset delta: its first byte, and what follows."""
    encoded = varint_bytes(delta)
    return encoded[0], encoded[1:]


@lru_cache(maxsize=256)
def _offset_columns(delta: int) -> tuple[bytes, ...]:
    """The bytes of the offset deltas from this one on: all first ones, all second ones and so on.
    Two bytes have 8,128 deltas, others are those up to the next multiple of `DELTAS_AT_ONCE`.
    """
    if delta == DELTAS_AT_ONCE:
        return _EACH_BYTE[0x80::2] * 127, b"".join(
            bytes((high,)) * DELTAS_AT_ONCE for high in range(1, 128)
        )
    low, tail = _offset_bytes(delta)
    return _EACH_BYTE[low::2], *(bytes((byte,)) * DELTAS_AT_ONCE for byte in tail)


_EACH_BYTE: Final = bytes(range(0x100))
_SIGNED: Final = tuple(value >> 1 ^ -(value & 1) for value in range(0x80))
# By the one byte of a field's length: how far it is to the next field.
_BEHIND: Final = tuple(1 if value & 1 else 1 + (value >> 1) for value in range(0x80))
