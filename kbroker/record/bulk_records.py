"""Many records of format 2 at once: built from keys and values, or read, at a fraction of the cost
per record.

The body of a record is its key and value, each after its length, and its headers unless all records
have the same. Its length, time and offset are put around the bodies of a batch in one go.

Law: what is built is what `record_batch.build` builds of the same records, and what is read is what
`record_batch.records` reads; any bytes give records or KafkaError(INVALID_RECORD).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import add
from typing import Final

from kbroker.model import new_tuple
from kbroker.record.compression import READER_MAX_BYTES
from kbroker.record.default_record import (
    Headers,
    Record,
    invalid,
    read_headers,
    read_varint,
    varint_bytes,
    write_headers,
)
from kbroker.record.record_batch import (
    LOG_APPEND_TIME,
    BatchHeader,
    BatchOptions,
    base_time,
    join_batch,
    plain_records,
    unsealed_header,
)

# A record is larger than its body and headers by no more: length, attributes, time, offset.
MOST_AROUND_BODY: Final = 12
MOST_OF_TIME: Final = 9  # by this, too, if each record has a time of its own

_NULL: Final = b"\x01"  # the length -1
_WIDTHS: Final = ((0, 64), (64, 8192), (8192, 1 << 20), (1 << 20, 1 << 27))  # of offset deltas


class _Lengths(dict[int, bytes]):
    """A length as a varint, kept for the next one, between two constant pieces."""

    def __init__(self, before: bytes = b"", behind: bytes = b"", more: int = 0) -> None:
        self._before, self._behind, self._more = before, behind, more

    def __missing__(self, length: int) -> bytes:
        made = self[length] = self._before + varint_bytes(length + self._more) + self._behind
        return made


def bodies_of_values(values: Iterable[bytes | None], key: bytes | None = None) -> list[bytes]:
    """The bodies of records that have one key, or none."""
    before = _field(key)
    lengths = _Lengths(before)
    null = before + _NULL
    return [null if value is None else lengths[len(value)] + value for value in values]


def body_of(key: bytes | None, value: bytes | None) -> bytes:
    return _field(key) + _field(value)


def bodies_of_pairs(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[bytes]:
    """The bodies of records with these keys and values."""
    if None in keys or None in values:
        return list(map(body_of, keys, values))
    before = _Lengths()
    return [
        before[len(key)] + key + before[len(value)] + value
        for key, value in zip(keys, values, strict=True)
        if key is not None and value is not None
    ]


def whole_body_of(record: Record) -> bytes:
    """The body of a record with its headers."""
    body = _field(record.key) + _field(record.value)
    if not record.headers:
        return body + b"\0"
    tail = bytearray()
    write_headers(tail, record.headers)
    return body + tail


def build_from_bodies(
    bodies: Sequence[bytes],
    headers: Headers | None,
    timestamps: int | Sequence[int],
    options: BatchOptions,
) -> bytes:
    """A batch as a producer sends it. All records have the same headers, or each its own in its
    body (None); all have the same time, or each its own (Unix ms).
    """
    tail = bytearray()
    if headers is not None:
        write_headers(tail, headers)
    count = len(bodies)
    if isinstance(timestamps, int):
        first_ms = last_ms = timestamps
        times = None
    else:
        first_ms, last_ms = timestamps[0], max(timestamps)
        first_ms = base_time(first_ms, last_ms)
        as_varints = _Lengths()
        times = [as_varints[timestamp - first_ms] for timestamp in timestamps]
    pieces = [
        _some_records(
            bodies[first:end],
            range(first, min(end, count)),
            None if times is None else times[first:end],
            bytes(tail),
        )
        for first, end in _WIDTHS
        if first < count
    ]
    header = unsealed_header(
        options,
        base_offset=0,
        last_offset=count - 1,
        base_timestamp=first_ms,
        max_timestamp=last_ms,
        record_count=count,
    )
    return join_batch(header, b"".join(pieces), options.level)


def read_records(
    header: BatchHeader, batch: bytes | memoryview, max_bytes: int = READER_MAX_BYTES
) -> list[Record]:
    """The records of a stored batch of format 2. KafkaError as from `record_batch.records`."""
    return read_plain(header, bytes(plain_records(header, batch, max_bytes)))


def read_plain(header: BatchHeader, plain: bytes) -> list[Record]:
    """The records of a batch whose uncompressed bytes are `plain`: slices of anything but bytes
    would not be bytes. INVALID_RECORD if one is broken, or their number is not the header's.
    """
    found: list[Record] = []
    try:
        end = _read(header, plain, found)
    except IndexError:
        invalid("record cut short")
    if end != len(plain):
        invalid(f"{len(plain) - end} bytes after the last record")
    if header.timestamp_type == LOG_APPEND_TIME:
        return [record._replace(timestamp=header.max_timestamp) for record in found]
    return found


def _some_records(
    bodies: Sequence[bytes], deltas: range, times: Sequence[bytes] | None, tail: bytes
) -> bytes:
    """Records whose offset deltas are equally long."""
    width = len(_delta(deltas.start))
    _delta(deltas.stop - 1)
    offsets = _deltas[deltas.start : deltas.stop]
    tails = (tail,) * len(bodies)
    if times is None:
        # After the length: no attributes, and the time of the batch.
        lengths = _Lengths(behind=b"\0\0", more=2 + width + len(tail))
        starts = map(lengths.__getitem__, map(len, bodies))
        return b"".join(chain.from_iterable(zip(starts, offsets, bodies, tails, strict=True)))
    lengths = _Lengths(behind=b"\0", more=1 + width + len(tail))
    starts = map(lengths.__getitem__, map(add, map(len, bodies), map(len, times)))
    return b"".join(chain.from_iterable(zip(starts, times, offsets, bodies, tails, strict=True)))


def _read(header: BatchHeader, plain: bytes, found: list[Record]) -> int:  # noqa: C901, PLR0912, PLR0915  a call per field would double the time
    # A slice beyond the end comes out short; the position after it shows that.
    base_offset, base_timestamp, at = header.base_offset, header.base_timestamp, 0
    new, append = new_tuple, found.append
    for _ in range(header.record_count):
        doubled = plain[at]
        at += 1
        if doubled >= 0x80:
            high = plain[at]
            if high < 0x80:
                doubled = doubled & 0x7F | high << 7
                at += 1
            else:
                doubled, at = _long(plain, at)
        twice_end = 2 * at + doubled
        time_delta = plain[at + 1]
        at += 2
        if time_delta < 0x80:
            time_delta = time_delta >> 1 ^ -(time_delta & 1)
        else:
            time_delta, at = read_varint(plain, at - 1, 10)
        delta = plain[at]
        at += 1
        if delta >= 0x80:
            high = plain[at]
            if high < 0x80:
                delta = delta & 0x7F | high << 7
                at += 1
            else:
                delta, at = _long(plain, at)
        doubled = plain[at]
        at += 1
        if doubled >= 0x80:
            doubled, at = _long(plain, at)
        key = None
        if not doubled & 1:
            key = plain[at : at + (doubled >> 1)]
            at += doubled >> 1
        doubled = plain[at]
        at += 1
        if doubled >= 0x80:
            high = plain[at]
            if high < 0x80:
                doubled = doubled & 0x7F | high << 7
                at += 1
            else:
                doubled, at = _long(plain, at)
        value = None
        if not doubled & 1:
            value = plain[at : at + (doubled >> 1)]
            at += doubled >> 1
        headers: Headers = ()
        at += 1
        if plain[at - 1]:
            headers, at = read_headers(plain, at - 1, twice_end >> 1)
        if 2 * at != twice_end:
            invalid("record of another length than its fields")
        offset = base_offset + (delta >> 1 ^ -(delta & 1))
        append(new(Record, (offset, base_timestamp + time_delta, key, value, headers)))
    return at


def _long(plain: bytes, at: int) -> tuple[int, int]:
    """The unsigned varint whose first byte stands before `at`, and the position after it:
    twice a length, odd for null.
    """
    value, at = read_varint(plain, at - 1)
    return value << 1 if value >= 0 else -value * 2 - 1, at


def _field(value: bytes | None) -> bytes:
    if value is None:
        return _NULL
    size = len(value)
    return (_SHORT[size] if size < len(_SHORT) else varint_bytes(size)) + value


_SHORT: Final = tuple(map(varint_bytes, range(1024)))
_deltas: list[bytes] = []  # varints of 0, 1, 2 and so on, as many as were needed so far


def _delta(delta: int) -> bytes:
    while len(_deltas) <= delta:
        _deltas.append(varint_bytes(len(_deltas)))
    return _deltas[delta]
