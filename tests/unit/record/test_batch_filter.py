"""Batches with some of their records taken out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.errors import KafkaError
from kbroker.record.batch_filter import (
    empty_batch,
    keep_legacy_records,
    keep_records,
    record_spans,
)
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.legacy_record import any_records, is_intact, read_any_header
from kbroker.record.record_batch import (
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchOptions,
    Record,
    build,
    payload,
    read_header,
    records,
)

TIME = 1_700_000_000_000


def batch_of(*entries: Record, **options: Any) -> bytes:
    return build(entries, base_offset=10, options=BatchOptions(**options))


def some(count: int = 4, **options: Any) -> bytes:
    entries = (
        Record(10 + index, TIME + index, b"k%d" % index, b"v" * 70, (("h", None),))
        for index in range(count)
    )
    return batch_of(*entries, **options)


def kept_of(batch: bytes, *deltas: int, horizon_ms: int | None = None) -> bytes:
    header = read_header(batch)
    body = bytes(payload(header, batch))
    spans = record_spans(body, header.record_count)
    kept = [span for span in spans if span.offset_delta in deltas]
    return keep_records(header, body, kept, horizon_ms)


texts = st.none() | st.binary(max_size=200)


@given(st.lists(st.tuples(texts, texts, st.integers(-(2**40), 2**40)), min_size=1, max_size=80))
def test_spans_say_of_every_record_what_reading_it_says(
    entries: list[tuple[bytes | None, bytes | None, int]],
) -> None:
    written = [
        Record(10 + index * 3, TIME + delta, key, value)
        for index, (key, value, delta) in enumerate(entries)
    ]
    batch = batch_of(*written)
    header = read_header(batch)
    spans = record_spans(bytes(payload(header, batch)), header.record_count)
    assert [(10 + s.offset_delta, s.key, s.has_value) for s in spans] == [
        (r.offset, r.key, r.value is not None) for r in written
    ]
    assert [s.start for s in spans[1:]] == [s.end for s in spans[:-1]]


@given(st.binary(max_size=60), st.integers(1, 5))
def test_any_bytes_are_spans_or_refused(data: bytes, count: int) -> None:
    try:
        spans = record_spans(data, count)
    except KafkaError:
        return
    assert len(spans) == count


def test_more_bytes_than_records_are_refused() -> None:
    batch = some(2)
    body = bytes(payload(read_header(batch), batch))
    with pytest.raises(KafkaError, match="after the last record"):
        record_spans(body, 1)


@pytest.mark.parametrize("codec", range(5))
def test_kept_records_are_as_they_were_and_the_header_keeps_its_place(codec: int) -> None:
    batch = some(
        compression=codec,
        flags=TRANSACTIONAL_BIT,
        producer_id=7,
        producer_epoch=1,
        base_sequence=100,
        partition_leader_epoch=3,
    )
    kept = kept_of(batch, 1, 3)

    before, after = read_header(batch), read_header(kept)
    assert is_intact(after, kept)
    assert list(records(kept)) == [list(records(batch))[1], list(records(batch))[3]]
    assert after == before._replace(
        batch_length=after.batch_length,
        crc=after.crc,
        base_timestamp=TIME + 1,
        record_count=2,
    )


def test_a_delete_horizon_takes_the_place_of_the_base_time() -> None:
    kept = kept_of(some(), 0, 1, horizon_ms=TIME + 500)
    header = read_header(kept)
    assert header.attributes == DELETE_HORIZON_BIT
    assert header.delete_horizon_ms == TIME + 500
    assert header.max_timestamp == TIME + 1
    assert [record.timestamp for record in records(kept)] == [TIME, TIME + 1]


def test_a_horizon_stays_when_more_records_go() -> None:
    first = kept_of(some(), 0, 1, 2, horizon_ms=TIME + 500)
    again = kept_of(first, 2)
    assert read_header(again).delete_horizon_ms == TIME + 500
    assert [record.timestamp for record in records(again)] == [TIME + 2]


def test_log_append_time_stays_that_of_the_batch() -> None:
    batch = some(flags=TIMESTAMP_TYPE_BIT, max_timestamp=TIME + 900)
    kept = kept_of(batch, 2)
    header = read_header(kept)
    assert (header.base_timestamp, header.max_timestamp) == (TIME + 900, TIME + 900)
    assert [record.timestamp for record in records(kept)] == [TIME + 900]


def test_an_empty_batch_is_a_header_with_the_producers_state() -> None:
    batch = some(compression=1, producer_id=7, producer_epoch=1, base_sequence=100)
    empty = empty_batch(read_header(batch))
    header = read_header(empty)
    assert len(empty) == 61
    assert is_intact(header, empty)
    assert (header.base_offset, header.last_offset, header.last_sequence) == (10, 13, 103)
    assert (header.record_count, header.compression, header.base_timestamp) == (0, 0, -1)
    assert header.max_timestamp == TIME + 3


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [1, 2, 3])
def test_what_is_left_of_a_wrapper_keeps_its_offsets(magic: int, codec: int) -> None:
    written = [Record(10 + i, TIME + i if magic else -1, b"k%d" % i, b"v" * 50) for i in range(4)]
    wrapper = build_legacy(written, magic, codec)
    kept = keep_legacy_records(read_any_header(wrapper), [written[1], written[2]])
    header = read_any_header(kept)
    assert is_intact(header, kept)
    assert (header.magic, header.compression, header.base_offset) == (magic, codec, 12)
    assert list(any_records(kept)) == [written[1], written[2]]
