"""Messages of formats 0 and 1: what Apache Kafka wrote, written again, and what goes in comes out.

The golden logs hold what a broker of 3.9.2 wrote for topics of the old formats. gzip and lz4 give
the same bytes here; snappy packs a little differently from one library to the next.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.record.compression import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD
from kbroker.record.default_record import Record
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.legacy_record import any_records, is_intact, read_any_header
from kbroker.record.record_batch import LOG_APPEND_TIME, BatchHeader
from tests.golden import golden_logs

NOW_MS = 1_795_000_000_000
OLD_CODECS = (NONE, GZIP, SNAPPY, LZ4)

RECORDS = [
    Record(7, NOW_MS + 2, b"k", b"v" * 50, (("h", b"1"),)),
    Record(9, NOW_MS + 5, None, b"", ()),
    Record(10, NOW_MS + 1, b"", None, ()),
]


def messages(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    position = 0
    while position < len(data):
        header = read_any_header(data, position)
        yield header, data[position : position + header.size_bytes]
        position += header.size_bytes


def old_golden_messages() -> Iterator[tuple[str, BatchHeader, bytes]]:
    for path, data in golden_logs.files(golden_logs.OLD_FORMATS).items():
        if path.endswith(".log"):
            for header, message in messages(data):
                if header.magic < 2:
                    yield path.partition("/")[0], header, message


def built_again(header: BatchHeader, message: bytes) -> bytes:
    stamped = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    records = any_records(message)
    return build_legacy(records, header.magic, header.compression, append_time_ms=stamped)


def test_messages_of_apache_kafka_are_built_to_the_same_bytes() -> None:
    different = [
        (topic, header)
        for topic, header, message in old_golden_messages()
        if header.compression != SNAPPY and built_again(header, message) != message
    ]

    assert different == []


def test_snappy_messages_of_apache_kafka_are_built_to_the_same_records() -> None:
    walked = 0
    for _topic, header, message in old_golden_messages():
        if header.compression == SNAPPY:
            again = built_again(header, message)
            assert list(any_records(again)) == list(any_records(message))
            assert read_any_header(again)._replace(batch_length=0, crc=0) == header._replace(
                batch_length=0, crc=0
            )
            walked += 1

    assert walked == 12


def stored(record: Record, magic: int) -> Record:
    return record._replace(headers=(), timestamp=record.timestamp if magic else -1)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS, ids=lambda codec: CODEC_NAMES[codec])
def test_records_come_back_with_their_offsets_and_without_headers(magic: int, codec: int) -> None:
    built = build_legacy(RECORDS, magic, codec)

    found = [record for _, message in messages(built) for record in any_records(message)]
    assert found == [stored(record, magic) for record in RECORDS]
    assert all(is_intact(header, message) for header, message in messages(built))


@pytest.mark.parametrize("magic", [0, 1])
def test_without_compression_each_record_is_a_message_of_its_own(magic: int) -> None:
    built = build_legacy(RECORDS, magic)

    assert [header.base_offset for header, _ in messages(built)] == [
        record.offset for record in RECORDS
    ]


def test_a_wrapper_has_the_last_offset_and_the_largest_time() -> None:
    (wrapper, _), *others = messages(build_legacy(RECORDS, 1, GZIP))

    assert others == []
    assert (wrapper.base_offset, wrapper.max_timestamp) == (10, NOW_MS + 5)


def test_log_append_time_is_on_every_message() -> None:
    built = build_legacy(RECORDS, 1, append_time_ms=NOW_MS)

    found = [(header.timestamp_type, header.max_timestamp) for header, _ in messages(built)]
    assert found == [(LOG_APPEND_TIME, NOW_MS)] * 3


def test_log_append_time_is_on_the_wrapper_and_on_what_it_wraps() -> None:
    wrapper = build_legacy(RECORDS, 1, GZIP, append_time_ms=NOW_MS)

    header = read_any_header(wrapper)
    assert (header.timestamp_type, header.max_timestamp) == (LOG_APPEND_TIME, NOW_MS)
    assert {record.timestamp for record in any_records(wrapper)} == {NOW_MS}


def test_format_0_has_no_place_for_log_append_time() -> None:
    assert build_legacy(RECORDS, 0, append_time_ms=NOW_MS) == build_legacy(RECORDS, 0)


def test_a_time_before_the_epoch_becomes_none() -> None:
    built = build_legacy([Record(0, -5, None, b"v")], 1)

    assert next(any_records(built)).timestamp == -1


def test_no_records_make_no_message() -> None:
    assert build_legacy([], 1, GZIP) == b""


@pytest.mark.parametrize("codec", [ZSTD, 5, 7])
def test_old_formats_have_no_newer_codecs(codec: int) -> None:
    with pytest.raises(KafkaError) as refused:
        build_legacy(RECORDS, 1, codec)

    assert refused.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_higher_level_packs_smaller() -> None:
    record = [Record(0, NOW_MS, None, bytes(range(200)) * 30 + b"some text, " * 200)]

    quick, small = (len(build_legacy(record, 1, GZIP, level=level)) for level in (1, 9))

    assert small < quick


def test_a_level_packs_smaller() -> None:
    records = [
        Record(n, NOW_MS, None, b"%d and %x, " % (n, n * n * 7919 % 65_521)) for n in range(500)
    ]

    low, high = (build_legacy(records, 1, GZIP, level=level) for level in (1, 9))

    assert len(high) < len(low)
