from __future__ import annotations

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.record.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kbroker.record.legacy_record import is_intact
from kbroker.record.record_batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchOptions,
    ControlRecord,
    Record,
    assign_log_append_time,
    assign_offset,
    build,
    build_marker,
    read_control,
    read_header,
    records,
)

RECORDS = [
    Record(0, 1000, b"a", b"1", (("h", b"x"), ("h", None))),
    Record(1, 900, None, b""),
    Record(2, 1100, b"", None),
]


def refusal(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.RaisesExc(KafkaError, check=lambda error: error.code is code)


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_built_records_are_read_back(codec: int) -> None:
    batch = build(RECORDS, options=BatchOptions(compression=codec))

    assert is_intact(read_header(batch), batch)
    assert list(records(batch)) == RECORDS
    assert read_header(batch).compression == codec


def test_an_empty_batch_keeps_its_offsets() -> None:
    batch = build([], base_offset=5, options=BatchOptions(last_offset=9, max_timestamp=7))

    header = read_header(batch)

    assert (len(batch), header.record_count, header.last_offset) == (HEADER_SIZE, 0, 9)
    assert list(records(batch)) == []


def test_offset_and_epoch_are_written_without_touching_the_checksum() -> None:
    batch = bytearray(build(RECORDS))

    assign_offset(memoryview(batch), 0, 42, 7)

    assert is_intact(read_header(batch), batch)
    header = read_header(batch)
    assert (header.base_offset, header.partition_leader_epoch, header.last_offset) == (42, 7, 44)
    assert [record.offset for record in records(batch)] == [42, 43, 44]


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = bytearray(build(RECORDS))

    assign_log_append_time(read_header(batch), batch, 0, 5555)

    assert is_intact(read_header(batch), batch)
    header = read_header(batch)
    assert (header.timestamp_type, header.base_timestamp) == (LOG_APPEND_TIME, 1000)
    assert {record.timestamp for record in records(batch)} == {5555}


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_marker_is_read_back(is_commit: bool) -> None:
    control = ControlRecord(is_commit, 11)
    options = BatchOptions(producer_id=5, producer_epoch=2)

    batch = build_marker(control, 1000, base_offset=8, options=options)

    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.base_offset, header.producer_id, header.producer_epoch) == (8, 5, 2)
    assert read_control(next(records(batch))) == control


def test_the_last_sequence_wraps_to_zero() -> None:
    batch = build(RECORDS, options=BatchOptions(producer_id=1, base_sequence=2**31 - 2))

    assert read_header(batch).last_sequence == 0


def test_a_flipped_bit_is_a_wrong_checksum() -> None:
    batch = bytearray(build(RECORDS))
    batch[-1] ^= 1

    assert not is_intact(read_header(batch), batch)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (b"\xff" * 20, ErrorCode.CORRUPT_MESSAGE),
        (build(RECORDS)[:40], ErrorCode.INVALID_RECORD),
        (build(RECORDS)[:16] + b"\x03" + build(RECORDS)[17:], ErrorCode.CORRUPT_MESSAGE),
        (build(RECORDS)[:16] + b"\x01" + build(RECORDS)[17:], ErrorCode.INVALID_RECORD),
    ],
)
def test_bytes_that_are_no_batch_are_refused_as_kafka_does(data: bytes, code: ErrorCode) -> None:
    with refusal(code):
        read_header(data)
