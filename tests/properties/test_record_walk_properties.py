"""A walk that compares many records at once finds what is found record by record."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.errors import ErrorCode, KafkaError
from kbroker.record.batch_tail import tail_fits
from kbroker.record.default_record import skim_record
from kbroker.record.record_batch import (
    HEADER_SIZE,
    BatchHeader,
    Record,
    build,
    payload,
    read_header,
)
from tests.fakes.logs.walked_batch import walk_batch

LIMIT = 1 << 20
maybe_bytes = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=10), maybe_bytes), max_size=3).map(tuple)
record_lists = st.lists(
    st.tuples(st.integers(-1, 2**62), maybe_bytes, maybe_bytes, headers), min_size=1, max_size=20
).map(lambda rows: [Record(offset, *row) for offset, row in enumerate(rows)])
SEEDS, BATCHES = 8, 250


def walked_slowly(header: BatchHeader, batch: bytes | bytearray) -> tuple[int, int, int, int]:
    """Return what a walk finds, one record after the other."""
    plain = payload(header, batch, 0, LIMIT)
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise KafkaError(ErrorCode.INVALID_RECORD)
    at = keyless = misplaced = 0
    times = []
    for expected in range(header.record_count):
        delta, offset, has_key, at = skim_record(plain, at)
        misplaced += offset != expected
        times.append(header.base_timestamp + delta)
        keyless += not has_key
    if at != len(plain):
        raise KafkaError(ErrorCode.INVALID_RECORD)
    return min(times), max(times), keyless, misplaced


@given(record_lists, st.integers(0, 100), st.data())
def test_a_walk_finds_what_is_found_record_by_record(
    entries: list[Record], first: int, data: st.DataObject
) -> None:
    entries = [Record(n, n, None, b"") for n in range(first)] + entries
    batch = bytearray(build([record._replace(offset=n) for n, record in enumerate(entries)]))
    for _ in range(data.draw(st.integers(0, 2))):
        batch[data.draw(st.integers(HEADER_SIZE, len(batch) - 1))] = data.draw(st.integers(0, 255))
    header = read_header(batch)

    try:
        expected = walked_slowly(header, batch)
    except KafkaError:
        with pytest.raises(KafkaError):
            walk_batch(header, batch)
        return
    assert walk_batch(header, batch) == expected


def some_field(seeded: random.Random) -> bytes | None:
    size = seeded.choice((None, 0, 1, 3, 62, 63, 64, 65, 200, 8_191, 8_192))
    return None if size is None else seeded.randbytes(size)


def batch_of_likes(seeded: random.Random) -> bytearray:
    """Records that are mostly of one shape, as producers send them."""
    count = seeded.choice((1, 2, 4, 5, 16, 63, 64, 65, 130))
    key, value = some_field(seeded), some_field(seeded)
    pairs = tuple(("h" * seeded.choice((0, 1, 64)), some_field(seeded)) for _ in range(2))
    own_headers = seeded.choice(((), (), pairs))
    span, odd = seeded.choice((0, 5, 63, 64, 9_000)), seeded.choice((0, 0, 0.02, 0.5))
    entries = []
    for offset in range(count):
        if seeded.random() < odd:
            value = some_field(seeded)
        time = 10_000 + seeded.randrange(-span, span + 1)
        entries.append(Record(offset, time, key, value, own_headers))
    return bytearray(build(entries))


def change(batch: bytearray, seeded: random.Random) -> None:
    """Break, or not, what a walk looks at: near the start of one record, or of all of them."""
    starts = [HEADER_SIZE]
    while starts[-1] < len(batch):
        starts.append(skim_record(batch, starts[-1])[3])
    if seeded.random() < 0.2:
        for start in starts[:-1]:
            batch[min(start + seeded.randrange(9), len(batch) - 1)] ^= 2
        return
    at = max(HEADER_SIZE, min(seeded.choice(starts) + seeded.randrange(-3, 12), len(batch) - 1))
    byte = seeded.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
    batch[at : at + seeded.randrange(3)] = bytes([byte] * seeded.randrange(2))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_walk_of_records_like_each_other_finds_what_is_found_record_by_record(seed: int) -> None:
    seeded = random.Random(seed)
    for number in range(BATCHES):
        batch = batch_of_likes(seeded)
        if number % 4:
            change(batch, seeded)
        header = read_header(batch)._replace(batch_length=len(batch) - 12)
        try:
            expected = walked_slowly(header, batch)
        except KafkaError:
            with pytest.raises(KafkaError):
                walk_batch(header, batch)
            assert not (header.record_count == 1 and tail_fits(header, batch))
            continue
        assert walk_batch(header, batch) == expected, (seed, number)
