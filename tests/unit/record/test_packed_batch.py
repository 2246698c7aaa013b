"""Batches that go from one broker to another one as they are."""

from __future__ import annotations

import pytest

from kbroker.record.bulk_records import build_from_bodies, read_records
from kbroker.record.compression import CODEC_IDS
from kbroker.record.legacy_record import is_intact
from kbroker.record.packed_batch import PackedBatch, can_be_passed_on
from kbroker.record.record_batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchOptions,
    Record,
    build,
    read_header,
)

RECORDS = [
    Record(40, 1_000, b"k", b"v", (("h", None), ("h", b"1"))),
    Record(41, 900, None, b""),
    Record(42, -1, b"", None),
]
OURS = BatchOptions(producer_id=9, producer_epoch=1, base_sequence=12)


def batch(flags: int = 0, codec: str = "none", records: list[Record] = RECORDS) -> bytes:
    options = BatchOptions(
        flags=flags,
        compression=CODEC_IDS[codec],
        producer_id=5,
        producer_epoch=3,
        base_sequence=77,
        partition_leader_epoch=8,
    )
    return build(records, base_offset=records[0].offset, options=options)


@pytest.mark.parametrize("codec", sorted(CODEC_IDS))
@pytest.mark.parametrize("flags", [0, TRANSACTIONAL_BIT, DELETE_HORIZON_BIT])
def test_a_batch_becomes_that_of_another_producer(codec: str, flags: int) -> None:
    data = batch(flags, codec)
    packed = PackedBatch(read_header(data), memoryview(data + b"behind"))

    sent = packed.for_producer(OURS)

    header = read_header(sent)
    assert is_intact(read_header(sent), sent)
    assert (header.base_offset, header.attributes) == (0, CODEC_IDS[codec])
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 12)
    found = [record._replace(offset=record.offset + 40) for record in read_records(header, sent)]
    assert found == RECORDS


def test_an_unpacked_batch_has_the_same_records() -> None:
    data = batch(codec="gzip")
    packed = PackedBatch(read_header(data), memoryview(data))

    bodies, times = packed.unpacked()

    built = build_from_bodies(bodies, None, times, BatchOptions())
    assert read_records(read_header(built), built) == [
        record._replace(offset=record.offset - 40) for record in RECORDS
    ]


def test_only_a_batch_that_a_producer_could_have_sent_is_passed_on() -> None:
    gap = [RECORDS[0], RECORDS[1]._replace(offset=44)]

    assert can_be_passed_on(read_header(batch(TRANSACTIONAL_BIT)))
    assert not can_be_passed_on(read_header(batch(records=gap)))
    assert not can_be_passed_on(read_header(batch(TIMESTAMP_TYPE_BIT)))
    assert not can_be_passed_on(read_header(batch(CONTROL_BIT)))
