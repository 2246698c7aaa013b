"""Walks over the records of a batch while they are unpacked piece by piece.

Law: as in `record_walk`, nothing is built or copied per record. A stream is read once: asking twice
unpacks twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from kbroker.errors import KafkaError
from kbroker.model import NO_TIMESTAMP
from kbroker.record.codecs.payload import PIECE_BYTES
from kbroker.record.default_record import write_record
from kbroker.record.record_batch import BatchHeader
from kbroker.record.record_stream import RecordStream
from kbroker.record.record_walk import (
    DELTAS_AT_ONCE,
    LongWalkError,
    WalkedRecords,
    check_claims,
    nothing_walked,
    walk_some,
    walked_records,
)

_RETRIED_BYTES: Final = PIECE_BYTES  # records of so many that are not whole are walked one by one


def walk_stream(header: BatchHeader, stream: RecordStream) -> WalkedRecords:
    """Walk records as `record_walk.walk_records` does; they need not fit into memory."""
    check_claims(header)
    count = header.record_count
    walked = nothing_walked()
    index = 0
    while index < count:
        end = min(count, index + DELTAS_AT_ONCE)
        if _walk_held(stream, range(index, end), walked):
            index = end
        elif stream.left >= _RETRIED_BYTES or not stream.more():
            for expected in range(index, end):
                _skim_one(stream, expected, walked)
            index = end
    stream.check_end()
    return walked_records(header, walked)


def _walk_held(stream: RecordStream, deltas: range, walked: list[int]) -> bool:
    """Walk these records if they are held whole; False changes nothing."""
    tried = walked.copy()
    held = stream.held
    try:
        at = walk_some(held, stream.at, deltas, tried)
    except (IndexError, KafkaError, LongWalkError):
        return False  # cut off here, or broken: one by one it shows
    if at > len(held):
        return False
    stream.at = at
    walked[:] = tried
    return True


def _skim_one(stream: RecordStream, expected: int, walked: list[int]) -> None:
    delta, offset_delta, has_key = stream.skim()
    least, most, keyless, misplaced, _ = walked
    walked[:4] = (
        min(least, delta),
        max(most, delta),
        keyless + (not has_key),
        misplaced + (offset_delta != expected),
    )


def times_and_keys(header: BatchHeader, stream: RecordStream) -> Iterator[tuple[int, int, bool]]:
    """(index, timestamp, has a key) of the records, which were walked before."""
    for index in range(header.record_count):
        delta, _, has_key = stream.skim()
        yield index, header.base_timestamp + delta, has_key


def numbered(header: BatchHeader, stream: RecordStream) -> Iterator[bytes | bytearray]:
    """The records, walked before, with consecutive offsets in place of their own, in pieces."""
    out = bytearray()
    for index in range(header.record_count):
        write_record(out, stream.read(0, 0)._replace(offset=index), 0, 0)
        if len(out) >= PIECE_BYTES:
            yield out
            out = bytearray()
    yield out


def timestamps_outside(
    header: BatchHeader, stream: RecordStream, bounds: tuple[int, int], most: int
) -> list[tuple[int, int]]:
    """(index, timestamp) of the first `most` records outside `bounds`, which are inclusive; the
    records were walked before.
    """
    earliest, latest = bounds
    outside = (
        (index, timestamp)
        for index, timestamp, _ in times_and_keys(header, stream)
        if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest
    )
    return list(islice(outside, most))


def first_record_at(
    header: BatchHeader, stream: RecordStream, timestamp: int, starting_offset: int
) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record not before both, in a batch as a log holds it."""
    stamp = header.stamp
    if stamp is not None and stamp < timestamp:
        return None
    least_delta = timestamp - header.base_timestamp
    least_offset_delta = starting_offset - header.base_offset
    for _ in range(header.record_count):
        delta, offset_delta, _ = stream.skim()
        if offset_delta >= least_offset_delta and (stamp is not None or delta >= least_delta):
            found = header.base_timestamp + delta if stamp is None else stamp
            return found, header.base_offset + offset_delta
    return None
