"""Batches with some of their records taken out: what the log cleaner writes in place of a batch.

Law: all that readers and producers rely on stays: base offset, last offset, sequence, producer,
leader epoch and codec of a batch, and the offsets of records. The CRC is new. As in Apache Kafka,
the base time becomes that of the first record kept, or the delete horizon if there is one
(attribute bit 6, KIP-534), and record attributes become 0. Messages of the old formats are written
again with the records that are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kbroker.model import NO_TIMESTAMP
from kbroker.record.compression import COMPRESSION_MASK
from kbroker.record.default_record import Record, invalid, read_varint, write_varint
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    join_batch,
)

_KEPT_BITS = COMPRESSION_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


class RecordSpan(NamedTuple):
    """The facts a cleaner needs about a record, and its place in the uncompressed records."""

    offset_delta: int
    key: bytes | None
    has_value: bool
    start: int
    end: int  # exclusive


def record_spans(payload: bytes, count: int) -> list[RecordSpan]:
    """The `count` records of a batch's uncompressed records, in one pass without building them.

    KafkaError(INVALID_RECORD) if their number is not the count.
    """
    spans: list[RecordSpan] = []
    try:
        end = _walk(payload, count, spans)
    except IndexError:
        invalid("record cut short")
    if end != len(payload):
        invalid(f"{len(payload) - end} bytes after the last record")
    return spans


def _walk(payload: bytes, count: int, spans: list[RecordSpan]) -> int:
    """Walk all records once; varints of one and two bytes, nearly all, are read in place."""
    new, append, size = tuple.__new__, spans.append, len(payload)
    at = 0
    for _ in range(count):
        start = at
        length = payload[at]
        if length < 0x80:
            at += 1
        else:
            high = payload[at + 1]
            length = length & 0x7F | high << 7
            at += 2
            if high >= 0x80:
                length, at = read_varint(payload, start)
                length <<= 1
        end = at + (length >> 1)
        if length & 1 or end > size:
            invalid(f"record of {length} bytes, {size - at} left")
        at += 1  # attributes
        while payload[at] >= 0x80:
            at += 1
        delta = payload[at + 1]
        at += 2
        if delta < 0x80:
            delta >>= 1
        else:
            delta, at = read_varint(payload, at - 1)
        key_length = payload[at]
        at += 1
        if key_length >= 0x80:
            key_length, at = read_varint(payload, at - 1)
            key_length <<= 1
        key = None
        if key_length != 1:
            stop = at + (key_length >> 1)
            key = payload[at:stop]
            at = stop
        if at >= end:
            invalid("field beyond the end of its record")
        append(new(RecordSpan, (delta, key, payload[at] != 1, start, end)))
        at = end
    return at


def keep_records(
    header: BatchHeader,
    payload: bytes,
    kept: Sequence[RecordSpan],
    delete_horizon_ms: int | None = None,
) -> bytes:
    """The batch with only these records, at least one; with a new delete horizon, if given."""
    append_time = header.stamp
    times: list[int] = []
    rests: list[bytes] = []  # of each record, all after its time
    for span in kept:
        _, at = read_varint(payload, span.start)
        delta, at = read_varint(payload, at + 1, 10)
        times.append(header.base_timestamp + delta if append_time is None else append_time)
        rests.append(payload[at : span.end])
    newest = max(times) if append_time is None else append_time
    changed = kept_header(header, times[0], newest, len(kept), delete_horizon_ms)
    body = bytearray()
    for timestamp, rest in zip(times, rests, strict=True):
        write_kept_lead(body, timestamp - changed.base_timestamp, len(rest))
        body += rest
    return join_batch(changed, body)


def kept_header(
    header: BatchHeader, first_ms: int, newest_ms: int, count: int, delete_horizon_ms: int | None
) -> BatchHeader:
    """The header of a batch with this many records left, the first of them at this time."""
    horizon = header.delete_horizon_ms if delete_horizon_ms is None else delete_horizon_ms
    attributes = header.attributes & _KEPT_BITS
    return header._replace(
        attributes=attributes | (0 if horizon is None else DELETE_HORIZON_BIT),
        base_timestamp=first_ms if horizon is None else horizon,
        max_timestamp=newest_ms,
        record_count=count,
    )


def write_kept_lead(out: bytearray, timestamp_delta: int, rest_bytes: int) -> None:
    """Append the start of a record, up to its offset; this many bytes follow."""
    lead = bytearray(1)
    write_varint(lead, timestamp_delta)
    write_varint(out, len(lead) + rest_bytes)
    out += lead


def empty_batch(header: BatchHeader) -> bytes:
    """The batch without its records: its producer and its offsets stay."""
    attributes = header.attributes & (_KEPT_BITS & ~COMPRESSION_MASK)
    changed = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
    return join_batch(changed, b"")


def keep_legacy_records(header: BatchHeader, kept: Iterable[Record]) -> bytes:
    """A message of format 0 or 1, perhaps one that wraps several, with only these records."""
    append_time = header.stamp
    return build_legacy(kept, header.magic, header.compression, append_time_ms=append_time)
