"""Batches of which some records stay: streamed ones become what held ones become."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest

from kbroker.errors import KafkaError
from kbroker.record import filtered_batch
from kbroker.record.batch_filter import RecordSpan
from kbroker.record.compression import CODEC_NAMES, GZIP, LZ4, SNAPPY, ZSTD, plain_pieces
from kbroker.record.default_record import Record, write_record
from kbroker.record.filtered_batch import HeldBatch, StreamedBatch, batch_to_filter
from kbroker.record.record_batch import (
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    TIMESTAMP_TYPE_BIT,
    BatchOptions,
    build,
    join_pieces,
    read_header,
    records,
)
from tests.fakes.logs.unreadable_batches import batch_cut_short, unreadable_batch

MANY = [
    Record(
        100 + index,
        1_000 + index * 7 % 100,
        None if index % 3 == 0 else b"key%d" % (index % 50),
        None if index % 11 == 0 else b"v" * (index * 37 % 300),
        (("h", b"1"), ("i", None)) if index % 5 == 0 else (),
    )
    for index in range(2_500)
]
LARGE_BYTES = 30_000_000


def batch_of(entries: Sequence[Record] = MANY, **options: Any) -> bytes:
    return build(entries, base_offset=100, options=BatchOptions(**options))


def some(spans: list[RecordSpan]) -> list[RecordSpan]:
    return [span for span in spans if span.offset_delta % 4 == 1]


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("horizon_ms", [None, 5_000])
@pytest.mark.parametrize("flags", [0, TIMESTAMP_TYPE_BIT, DELETE_HORIZON_BIT])
def test_a_streamed_batch_becomes_what_a_held_one_becomes(
    codec: int, horizon_ms: int | None, flags: int
) -> None:
    batch = batch_of(compression=codec, flags=flags)
    header = read_header(batch)
    held, streamed = batch_to_filter(header, batch), StreamedBatch(header, batch)
    assert isinstance(held, HeldBatch)

    assert [span[:3] for spans in streamed.spans() for span in spans] == [
        span[:3] for spans in held.spans() for span in spans
    ]
    assert streamed.choose(some) == held.choose(some)

    one, other = held.of_chosen(horizon_ms), streamed.of_chosen(horizon_ms)
    assert list(records(other)) == list(records(one))
    assert read_header(other)._replace(crc=0, batch_length=0) == read_header(one)._replace(
        crc=0, batch_length=0
    )
    if not codec:
        assert other == one


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_no_more_of_a_large_batch_is_held_than_pieces_of_it(codec: int) -> None:
    body = bytearray()
    for index in range(4):
        value = bytes(LARGE_BYTES) if index % 2 else b"v"
        write_record(body, Record(100 + index, 1, b"k%d" % index, value), 100, 1)
    whole = batch_of(MANY[:4])
    header = read_header(whole)._replace(attributes=codec, base_timestamp=1, max_timestamp=1)
    batch = join_pieces(header, (body,))
    header = read_header(batch)
    del body

    tracemalloc.start()
    try:
        filtered = batch_to_filter(header, batch)
        chosen = filtered.choose(lambda spans: spans[1:3])
        changed = filtered.of_chosen(None)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (chosen.records, chosen.kept) == (4, 2)
    assert most < filtered_batch.WHOLE_BYTES * 2 + 3 * len(batch) + 4_000_000
    assert most < LARGE_BYTES
    codec_of = read_header(changed).compression
    assert sum(map(len, plain_pieces(codec_of, changed[HEADER_SIZE:]))) > LARGE_BYTES


@pytest.mark.parametrize("batch", [unreadable_batch(5, 3), batch_cut_short(5, 3)])
def test_what_cannot_be_read_shows_before_any_key(batch: bytes) -> None:
    with pytest.raises(KafkaError):
        batch_to_filter(read_header(batch), batch)
    with pytest.raises(KafkaError):
        StreamedBatch(read_header(batch), batch)
