"""Records from one format into another; answers of Apache Kafka 3.9.2 are the model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.record.compression import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD
from kbroker.record.conversion import down_convert
from kbroker.record.default_record import Record
from kbroker.record.legacy_builder import build_legacy, place_wrapper
from kbroker.record.legacy_record import any_records, is_intact, read_any_header
from kbroker.record.record_batch import (
    LOG_APPEND_TIME,
    BatchHeader,
    BatchOptions,
    ControlRecord,
    assign_log_append_time,
    build,
    build_marker,
    read_header,
)
from tests.golden import golden_logs

NOW_MS = 1_795_000_000_000
PLENTY = 1 << 20
OLD_CODECS = (NONE, GZIP, SNAPPY, LZ4)
by_name = pytest.mark.parametrize("codec", OLD_CODECS, ids=lambda codec: CODEC_NAMES[codec])


def record(offset: int, **changes: object) -> Record:
    plain = Record(offset, NOW_MS + offset, b"k%d" % offset, b"v%d" % offset * 9, ())
    return plain._replace(**changes)  # type: ignore[arg-type]


def batch(*offsets: int, codec: int = NONE) -> bytes:
    return build(
        map(record, offsets), base_offset=offsets[0], options=BatchOptions(compression=codec)
    )


def headers(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    position = 0
    while position < len(data):
        header = read_any_header(data, position)
        yield header, data[position : position + header.size_bytes]
        position += header.size_bytes


def read(data: bytes) -> list[Record]:
    assert all(is_intact(header, message) for header, message in headers(data))
    return [entry for _, message in headers(data) for entry in any_records(message)]


def as_stored(entry: Record, magic: int) -> Record:
    return entry._replace(headers=(), timestamp=entry.timestamp if magic else -1)


@by_name
@pytest.mark.parametrize("magic", [0, 1])
def test_batches_come_down_with_offsets_gaps_and_codec(magic: int, codec: int) -> None:
    stored = batch(3, 4, 9, codec=codec) + batch(12, 15, codec=codec)

    converted = down_convert(stored, magic, 3, PLENTY)

    assert read(converted.records) == [as_stored(record(n), magic) for n in (3, 4, 9, 12, 15)]
    assert {(header.magic, header.compression) for header, _ in headers(converted.records)} == {
        (magic, codec)
    }
    assert converted.next_offset == 16


def test_plain_records_before_the_wanted_offset_stay_away() -> None:
    converted = down_convert(batch(3, 4, 5), 1, 4, PLENTY)

    assert [entry.offset for entry in read(converted.records)] == [4, 5]


def test_wrapped_records_before_the_wanted_offset_come_along() -> None:
    converted = down_convert(batch(3, 4, 5, codec=GZIP), 1, 4, PLENTY)

    assert [entry.offset for entry in read(converted.records)] == [3, 4, 5]


def test_headers_stay_away() -> None:
    stored = build([record(0, headers=(("h", b"1"),))])

    assert read(down_convert(stored, 1, 0, PLENTY).records) == [record(0)]


@by_name
def test_the_brokers_time_comes_down_with_its_bit(codec: int) -> None:
    stored = bytearray(batch(0, 1, codec=codec))
    assign_log_append_time(read_header(stored), stored, 0, NOW_MS + 500)

    converted = down_convert(stored, 1, 0, PLENTY).records

    assert {entry.timestamp for entry in read(converted)} == {NOW_MS + 500}
    assert {header.timestamp_type for header, _ in headers(converted)} == {LOG_APPEND_TIME}


def marker(offset: int) -> bytes:
    return build_marker(
        ControlRecord(True, 0), NOW_MS, base_offset=offset, options=BatchOptions(producer_id=7)
    )


def test_a_batch_that_unpacks_to_more_than_is_taken_of_a_producer_at_once_comes_down() -> None:
    records = [Record(0, 5, None, b"\0" * 70_000_000)]
    packed = build(records, options=BatchOptions(compression=LZ4))

    converted = down_convert(packed, 1, 0, PLENTY)

    assert list(any_records(converted.records)) == records


def test_markers_stay_away() -> None:
    converted = down_convert(batch(0, 1) + marker(2) + batch(3), 1, 0, PLENTY)

    assert [entry.offset for entry in read(converted.records)] == [0, 1, 3]


def test_where_only_markers_are_the_offset_behind_them_is_told() -> None:
    assert down_convert(marker(2) + marker(3), 1, 2, PLENTY) == (b"", 4, (), 0)


def test_a_batch_that_compaction_emptied_is_passed_over() -> None:
    empty = build([], base_offset=4, options=BatchOptions(last_offset=8))

    assert down_convert(empty, 1, 4, PLENTY) == (b"", 9, (), 0)


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_cannot_come_down(magic: int) -> None:
    with pytest.raises(KafkaError) as refused:
        down_convert(batch(0, codec=ZSTD), magic, 0, PLENTY)

    assert refused.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_what_lies_before_zstd_comes_down() -> None:
    converted = down_convert(batch(0, 1) + batch(2, codec=ZSTD), 1, 0, PLENTY)

    assert [entry.offset for entry in read(converted.records)] == [0, 1]
    assert converted.next_offset == 2


def test_older_messages_come_as_they_are() -> None:
    old = build_legacy([record(0), record(1)], 0, GZIP)

    converted = down_convert(old + batch(2), 1, 0, PLENTY).records

    assert converted.startswith(old)
    assert [header.magic for header, _ in headers(converted)] == [0, 1]


@by_name
def test_format_1_comes_down_to_format_0(codec: int) -> None:
    entries = [record(5), record(8)]

    converted = down_convert(build_legacy(entries, 1, codec), 0, 5, PLENTY).records

    assert converted == build_legacy(entries, 0, codec)


def test_the_first_batch_comes_whole() -> None:
    assert len(read(down_convert(batch(0, 1, 2), 1, 0, 1).records)) == 3


def test_later_plain_messages_come_as_far_as_there_is_room() -> None:
    one = len(down_convert(batch(0), 1, 0, PLENTY).records)

    converted = down_convert(batch(0, 1) + batch(2, 3, 4), 1, 0, 3 * one + 5).records

    assert [entry.offset for entry in read(converted)] == [0, 1, 2]
    assert len(converted) == 3 * one


def test_a_later_wrapper_without_room_stays_away() -> None:
    first = len(down_convert(batch(0, codec=GZIP), 1, 0, PLENTY).records)

    converted = down_convert(batch(0, codec=GZIP) + batch(1, codec=GZIP), 1, 0, first + 9).records

    assert [entry.offset for entry in read(converted)] == [0]


@pytest.mark.parametrize("keep", [1, 16, 17, 60, 61, -1])
def test_a_batch_that_is_cut_off_is_left_out(keep: int) -> None:
    whole = batch(0)

    assert read(down_convert(whole + batch(1)[:keep], 1, 0, PLENTY).records) == [record(0)]
    assert down_convert(whole[:keep], 1, 0, PLENTY) == (b"", 0, (), 0)


def test_an_old_message_that_is_cut_off_comes_along_as_the_first() -> None:
    message = build_legacy([record(0)], 1)

    assert down_convert(message[:-3], 1, 0, PLENTY).records == message[:-3]
    assert down_convert(message + message[:-3], 1, 0, PLENTY).records == message


def test_spoiled_bytes_are_an_error_only_where_nothing_lies_before_them() -> None:
    spoiled = b"\xff" * 40

    assert read(down_convert(batch(0) + spoiled, 1, 0, PLENTY).records) == [record(0)]
    with pytest.raises(KafkaError) as refused:
        down_convert(spoiled, 1, 0, PLENTY)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("name", [*golden_logs.CLEAN, "3.9.2-compaction-after-2"])
def test_every_golden_log_comes_down_with_all_its_records(name: str) -> None:
    walked = 0
    for path, data in golden_logs.files(name).items():
        if not path.endswith(".log"):
            continue
        for header, stored in headers(data):
            if header.magic == 2 and not header.is_control and header.compression != ZSTD:
                entries = list(any_records(stored))
                converted = down_convert(stored, 1, header.base_offset, PLENTY)
                assert read(converted.records) == [as_stored(entry, 1) for entry in entries]
                walked += len(entries)

    assert walked > 200


def test_a_wrapper_moves_without_being_opened() -> None:
    message = build_legacy([record(0), record(1)], 1, GZIP)

    placed = place_wrapper(read_any_header(message), message, 41, NOW_MS + 1, None)

    assert read(placed) == [record(n)._replace(offset=40 + n) for n in (0, 1)]
    assert placed[34:] == message[34:]


def test_a_wrapper_that_moves_can_get_the_brokers_time() -> None:
    message = build_legacy([record(0), record(1)], 1, GZIP)

    placed = place_wrapper(read_any_header(message), message, 1, NOW_MS, NOW_MS + 9)

    assert {entry.timestamp for entry in read(placed)} == {NOW_MS + 9}
    assert read_any_header(placed).timestamp_type == LOG_APPEND_TIME


def test_an_old_message_that_is_cut_off_behind_a_marker_is_left_for_the_next_read() -> None:
    message = build_legacy([record(3)], 1)

    assert down_convert(marker(2) + message[:-3], 1, 2, PLENTY) == (b"", 3, (), 0)
