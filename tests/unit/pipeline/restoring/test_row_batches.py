"""Rows become the batches that their records, one by one, would make."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.config.topic_config import TopicConfig
from kbroker.pipeline.restoring.record_encoding import varints
from kbroker.pipeline.restoring.row_batches import (
    BatchForm,
    batch_without_records,
    producer_batches,
    row_batches,
)
from kbroker.record.compression import CODEC_IDS
from kbroker.record.default_record import varint_bytes
from kbroker.record.legacy_record import is_intact
from kbroker.record.packed_batch import can_be_passed_on
from kbroker.record.record_batch import (
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    BatchOptions,
    Record,
    build,
    read_header,
    records,
)
from tests.fakes.archives.arrow_records import BASE_MS, record, unplaced_batch

DAY_MS = 86_400_000

maybe_bytes = st.none() | st.binary(max_size=5) | st.sampled_from([63, 64, 9_000]).map(bytes)
headers = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.sampled_from(["", "a", "ключ"]), "value": maybe_bytes}),
    max_size=3,
)
fields = st.fixed_dictionaries(
    {
        "key": maybe_bytes,
        "value": maybe_bytes,
        "headers": headers,
        "timestampType": st.sampled_from([0, 0, 0, 1, -1]),
        "timestamp": st.sampled_from([-1, BASE_MS, BASE_MS + 5, BASE_MS - DAY_MS])
        | st.integers(-(2**40), 2**45),
    }
)
steps = st.sampled_from([1, 1, 1, 2, 70, 9_000, 2**31 - 1, 2**31])
described = st.lists(st.tuples(steps, fields), min_size=1, max_size=20)


def made(rows: list[dict[str, Any]], **form: Any) -> list[bytes]:
    return [batch.built() for batch in row_batches(unplaced_batch(rows), BatchForm(**form))]


def record_of(row: dict[str, Any]) -> Record:
    pairs = tuple((each["key"], each["value"]) for each in row["headers"] or ())
    return Record(row["offset"], row["timestamp"] // 1_000, row["key"], row["value"], pairs)


def kinds_of(data: list[bytes]) -> list[int]:
    return [read_header(each).timestamp_type for each in data for _ in records(each)]


@given(described, st.sampled_from([200, 5_000, 1 << 20]), st.sampled_from([DAY_MS - 1, 1 << 60]))
def test_rows_come_back_out_of_their_batches(
    described: list[tuple[int, dict[str, Any]]], most_bytes: int, most_ms: int
) -> None:
    offsets = accumulate((step for step, _ in described), initial=0)
    rows = [record(offset, **f) for offset, (_, f) in zip(offsets, described, strict=False)]

    data = made(rows, most_bytes=most_bytes, most_ms=most_ms, leader_epoch=7)

    assert [record for each in data for record in records(each)] == list(map(record_of, rows))
    assert kinds_of(data) == [int(row["timestampType"] == 1) for row in rows]
    for each in data:
        header, inside = read_header(each), list(records(each))
        options = BatchOptions(
            flags=header.attributes & TIMESTAMP_TYPE_BIT, partition_leader_epoch=7
        )
        assert each == build(inside, base_offset=inside[0].offset, options=options)
        assert len(each) <= most_bytes or len(inside) == 1
        assert max(r.timestamp for r in inside) - inside[0].timestamp <= most_ms


@given(described, st.sampled_from([200, 5_000, 1 << 20]), st.sampled_from(sorted(CODEC_IDS)))
def test_a_producer_sends_the_same_records_with_offsets_that_follow_each_other(
    described: list[tuple[int, dict[str, Any]]], most_bytes: int, codec: str
) -> None:
    offsets = accumulate((step for step, _ in described), initial=0)
    rows = [record(offset, **f) for offset, (_, f) in zip(offsets, described, strict=False)]
    form = BatchForm(most_bytes=most_bytes, codec=CODEC_IDS[codec])

    packed = [batch.packed() for batch in producer_batches(unplaced_batch(rows), form)]
    sent = [each.for_producer(BatchOptions(producer_id=7, base_sequence=3)) for each in packed]

    expected = list(map(record_of, rows))
    for each, data in zip(packed, sent, strict=True):
        mine, expected = expected[: each.record_count], expected[each.record_count :]
        options = BatchOptions(producer_id=7, base_sequence=3, compression=form.codec)
        own = [each._replace(offset=number) for number, each in enumerate(mine)]
        assert data == build(own, options=options)
        assert can_be_passed_on(each.header)
    assert not expected


def test_a_producer_sends_batches_of_about_one_size() -> None:
    rows = [record(at, value=b"." * 900) for at in range(11)]

    batches = producer_batches(unplaced_batch(rows), BatchForm(most_bytes=10_000))

    assert [batch.header.record_count for batch in batches] == [6, 5]


@given(st.lists(st.integers(-(2**62), 2**62 - 1), max_size=9))
def test_varints_are_those_of_one_by_one(numbers: list[int]) -> None:
    found = varints(np.array(numbers, np.int64))

    assert found.to_pylist() == [varint_bytes(number) for number in numbers]


def test_rows_of_a_slice_are_the_rows_that_it_shows() -> None:
    rows = [
        record(at, key=None if at % 2 else b"k", headers=[{"key": f"h{at}", "value": None}])
        for at in range(9)
    ]
    shown = unplaced_batch(rows).slice(3, 4)

    (batch,) = row_batches(shown, BatchForm())

    assert list(records(batch.built())) == list(map(record_of, rows[3:7]))


def test_nothing_becomes_no_batch() -> None:
    assert list(row_batches(unplaced_batch([record(0)]).slice(0, 0), BatchForm())) == []


def test_times_that_a_broker_set_part_batches() -> None:
    stamped = [record(at, timestamp=BASE_MS + at // 3, timestampType=1) for at in range(6)]

    data = made([*stamped, record(6, timestamp=BASE_MS + 1)])

    assert [read_header(each).record_count for each in data] == [3, 3, 1]
    assert [read_header(each).max_timestamp for each in data] == [BASE_MS, BASE_MS + 1, BASE_MS + 1]
    assert kinds_of(data) == [1] * 6 + [0]


def test_the_oldest_records_do_not_share_a_batch_with_much_younger_ones() -> None:
    rows = [record(at, timestamp=BASE_MS + at * DAY_MS) for at in range(10)]
    late = record(10, timestamp=BASE_MS)

    data = made([*rows, late], most_ms=7 * DAY_MS)

    assert [read_header(each).record_count for each in data] == [8, 3]


@pytest.mark.parametrize("codec", sorted(CODEC_IDS))
def test_every_codec(codec: str) -> None:
    rows = [record(at) for at in range(50)]

    (batch,) = made(rows, codec=CODEC_IDS[codec])

    assert read_header(batch).compression == CODEC_IDS[codec]
    assert is_intact(read_header(batch), batch)
    assert list(records(batch)) == list(map(record_of, rows))


def test_a_batch_may_end_after_its_last_record() -> None:
    (batch,) = row_batches(unplaced_batch([record(4), record(6)]), BatchForm())

    assert ends(batch.up_to(10).built()) == (4, 10)
    assert ends(batch.up_to(7).built()) == (4, 7)
    assert ends(batch.up_to(5).built()) == (4, 7)
    assert ends(batch.up_to(2**40).built()) == (4, 4 + 2**31)


def test_a_batch_may_begin_before_its_first_record() -> None:
    rows = [record(4), record(2**31 + 1)]
    form = BatchForm(most_bytes=100)

    one, other = row_batches(unplaced_batch(rows), form, 2)
    (far,) = row_batches(unplaced_batch(rows[1:]), form, 1)

    assert (ends(one.built()), ends(other.built())) == ((2, 5), (2**31 + 1, 2**31 + 2))
    assert [record for batch in (one, other) for record in records(batch.built())] == list(
        map(record_of, rows)
    )
    assert ends(far.built()) == (2**31 + 1, 2**31 + 2)


def test_a_batch_may_have_no_record() -> None:
    built = batch_without_records(4, BatchForm(leader_epoch=3)).up_to(10).built()

    assert built == build(
        [], base_offset=4, options=BatchOptions(last_offset=9, partition_leader_epoch=3)
    )


def ends(data: bytes) -> tuple[int, int]:
    header: BatchHeader = read_header(data)
    return header.base_offset, header.next_offset


def test_batches_are_no_larger_than_a_topic_takes() -> None:
    assert BatchForm.of(TopicConfig(max_message_bytes=900), 0, 0).most_bytes == 900
    assert BatchForm.of(TopicConfig(segment_bytes=700), 0, 0).most_bytes == 700
    assert BatchForm.of(TopicConfig(), 0, 0).most_bytes == 64 * 1024
    assert BatchForm.of(TopicConfig(segment_ms=60_000), 0, 0).most_ms == 60_000
