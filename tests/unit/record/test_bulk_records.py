"""Many records at once give the bytes and the records that one by one gives."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kbroker.errors import KafkaError
from kbroker.record import record_batch
from kbroker.record.bulk_records import (
    MOST_AROUND_BODY,
    MOST_OF_TIME,
    bodies_of_pairs,
    bodies_of_values,
    body_of,
    build_from_bodies,
    read_records,
    whole_body_of,
)
from kbroker.record.compression import CODEC_IDS
from kbroker.record.record_batch import TIMESTAMP_TYPE_BIT, BatchOptions, Record, read_header

TIME = 1_700_000_000_000
long = st.sampled_from([63, 64, 1_023, 1_024, 8_191, 8_192]).map(lambda size: b"x" * size)
fields = st.none() | st.binary(max_size=9) | long
headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2)


@given(st.lists(st.tuples(fields, fields), min_size=1, max_size=9), headers)
def test_a_batch_is_what_it_is_record_by_record(
    pairs: list[tuple[bytes | None, bytes | None]], some_headers: list[tuple[str, bytes | None]]
) -> None:
    entries = [Record(n, TIME, *pair, tuple(some_headers)) for n, pair in enumerate(pairs)]
    bodies = [body_of(*pair) for pair in pairs]

    built = build_from_bodies(bodies, tuple(some_headers), TIME, BatchOptions())

    assert built == record_batch.build(entries)
    assert read_records(read_header(built), built) == entries


@given(
    st.lists(
        st.tuples(st.integers(-1, 2**50) | st.just(2**63 - 1), fields, fields, headers),
        min_size=1,
        max_size=9,
    )
)
@example([(-1, None, None, ()), (2**63 - 1, None, None, ())])
def test_records_with_their_own_times_and_headers_are_built(rows: list[tuple]) -> None:
    entries = [Record(n, *row[:3], tuple(row[3])) for n, row in enumerate(rows)]
    bodies = list(map(whole_body_of, entries))
    times = [record.timestamp for record in entries]

    built = build_from_bodies(bodies, None, times, BatchOptions())

    assert built == record_batch.build(entries)
    assert read_records(read_header(built), built) == entries
    around = (MOST_AROUND_BODY + MOST_OF_TIME) * len(entries)
    assert len(built) <= record_batch.HEADER_SIZE + sum(map(len, bodies)) + around


@given(st.lists(st.tuples(fields, fields), max_size=9))
def test_pairs_are_bodies(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]

    assert bodies_of_pairs(keys, values) == [body_of(*pair) for pair in pairs]


@pytest.mark.parametrize("count", [1, 64, 65, 8_192, 8_193])
def test_offsets_of_every_length_are_written_and_read(count: int) -> None:
    entries = [Record(n, TIME, None, b"v") for n in range(count)]

    built = build_from_bodies(bodies_of_values([b"v"] * count), (), TIME, BatchOptions())

    assert built == record_batch.build(entries)
    assert read_records(read_header(built), built) == entries


@pytest.mark.parametrize("key", [None, b"", b"k", b"k" * 200])
def test_one_key_for_all_values_is_the_key_of_each(key: bytes | None) -> None:
    values = [b"", None, b"v", b"v" * 200]

    assert bodies_of_values(values, key) == [body_of(key, value) for value in values]


@given(st.binary(max_size=300), headers)
def test_a_record_is_no_larger_than_was_reckoned(
    value: bytes, some_headers: list[tuple[str, bytes | None]]
) -> None:
    body = body_of(None, value)

    one, two = (
        len(build_from_bodies([body] * count, tuple(some_headers), TIME, BatchOptions()))
        for count in (1, 2)
    )
    bare = len(record_batch.build([Record(0, TIME, None, value)]))

    assert two - one <= len(body) + MOST_AROUND_BODY + (one - bare)


@given(
    st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**31 - 1)), min_size=1, max_size=5)
)
def test_far_offsets_and_times_are_read(places: list[tuple[int, int]]) -> None:
    entries = [Record(7 + offset, time, b"k", b"v") for time, offset in places]
    entries.sort()

    built = record_batch.build(entries, base_offset=7)

    assert read_records(read_header(built), built) == entries


@pytest.mark.parametrize("codec", sorted(CODEC_IDS))
def test_every_codec_is_read(codec: str) -> None:
    options = BatchOptions(compression=CODEC_IDS[codec])

    built = build_from_bodies(bodies_of_values([b"v"] * 99), (), TIME, options)

    assert [r.value for r in read_records(read_header(built), built)] == [b"v"] * 99


def test_records_have_the_time_that_the_broker_set() -> None:
    options = BatchOptions(flags=TIMESTAMP_TYPE_BIT, max_timestamp=TIME + 5)
    built = record_batch.build([Record(0, TIME, None, b"v")], options=options)

    (record,) = read_records(read_header(built), memoryview(built))

    assert record.timestamp == TIME + 5


@given(st.data())
def test_any_bytes_are_read_as_they_are_one_by_one_or_refused(data: st.DataObject) -> None:
    entries = [Record(n, TIME, b"key", b"v" * 70, (("h", b"1"),)) for n in range(3)]
    batch = bytearray(record_batch.build(entries))
    place = data.draw(st.integers(61, len(batch) - 1))
    batch[place] = data.draw(st.integers(0, 255))
    header = read_header(batch)

    with suppress(KafkaError):
        found = read_records(header, bytes(batch))
        assert found == list(record_batch.records(batch))
