"""Records held against what their batch says of them: walked whole."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.record.compression import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    compress,
    decompress,
    most_unpacked_bytes,
)
from kbroker.record.default_record import skim_record
from kbroker.record.record_batch import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    BatchHeader,
    BatchOptions,
    Record,
    build,
    payload,
    read_header,
)
from kbroker.record.record_stream import RecordStream
from kbroker.record.record_walk import check_record_count, walk_records
from kbroker.record.stream_walk import times_and_keys, timestamps_outside
from tests.fakes.logs.walked_batch import walk_batch

RECORDS = [
    Record(0, 1000, b"a", b"1", (("h", b"x"), ("h", None))),
    Record(1, 900, None, b""),
    Record(2, 1100, b"", None),
]
CODECS = [GZIP, SNAPPY, LZ4, ZSTD]


def refusal(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.RaisesExc(KafkaError, check=lambda error: error.code is code)


def plain_of(batch: bytes) -> tuple[BatchHeader, bytes]:
    header = read_header(batch)
    return header, bytes(payload(header, batch))


def test_validation_reports_the_largest_timestamp() -> None:
    batch = build(RECORDS)

    assert walk_batch(read_header(batch), batch).max_timestamp == 1100


@pytest.mark.parametrize(
    "change",
    [
        {"record_count": 4, "last_offset_delta": 3},
        {"record_count": 2, "last_offset_delta": 1},
        {"last_offset_delta": 5},
        {"record_count": 0, "last_offset_delta": -1},
    ],
    ids=str,
)
def test_a_count_that_lies_is_an_invalid_record(change: dict[str, int]) -> None:
    batch = build(RECORDS)

    with refusal(ErrorCode.INVALID_RECORD):
        walk_batch(read_header(batch)._replace(**change), batch)


def test_a_record_that_lies_about_its_length_is_invalid() -> None:
    batch = bytearray(build([Record(0, 0, b"key", b"value")]))
    batch[HEADER_SIZE] -= 2

    with refusal(ErrorCode.INVALID_RECORD):
        walk_batch(read_header(batch), batch)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_do_not_exist_are_unsupported(codec: int) -> None:
    batch = bytearray(build(RECORDS))
    batch[ATTRIBUTES_POSITION + 1] = codec

    with refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
        walk_batch(read_header(batch), batch)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_payload_that_cannot_be_unpacked_is_an_invalid_record(codec: int) -> None:
    batch = bytearray(build(RECORDS))
    batch[ATTRIBUTES_POSITION + 1] = codec

    with refusal(ErrorCode.INVALID_RECORD):
        walk_batch(read_header(batch), batch)


def keyless_of(header: BatchHeader, plain: bytes) -> list[int]:
    found = times_and_keys(header, RecordStream(iter((plain,))))
    return [index for index, _, has_key in found if not has_key]


def test_records_without_key_are_found() -> None:
    batch = build(RECORDS)

    header = read_header(batch)
    plain = bytes(payload(header, batch))

    assert walk_batch(header, batch).keyless == 1
    assert keyless_of(header, plain) == [1]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 127, 128, 8_191, 8_192, 8_193, 9_000])
def test_offsets_of_every_length_are_walked(count: int) -> None:
    entries = [Record(n, 5_000 + n, None if n % 3 else b"k", b"v") for n in range(count)]
    header, plain = plain_of(build(entries))

    walked = walk_batch(header, build(entries))

    keyless = [n for n in range(count) if n % 3]
    assert walked == (5_000, 5_000 + count - 1, len(keyless), 0)
    assert keyless_of(header, plain) == keyless


@pytest.mark.parametrize("at", [0, 1, 63, 64, 100, 8_192, 8_999])
def test_a_wrong_offset_is_found_wherever_it_is(at: int) -> None:
    batch = build([Record(n + (n >= at), 0, None, b"v") for n in range(9_000)])
    header = read_header(batch)._replace(last_offset_delta=8_999)

    assert walk_batch(header, batch).misplaced == 9_000 - at


@pytest.mark.parametrize("index", [0, 1, 63, 64, 8_191, 8_192])
def test_an_offset_may_be_written_in_more_bytes_than_it_needs(index: int) -> None:
    header, plain = plain_of(build([Record(n, 7, b"k", b"v") for n in range(9_000)]))
    at = 0
    for _ in range(index):
        at = skim_record(plain, at)[3]
    end = skim_record(plain, at)[3]
    offset_bytes = end - at - len(b"l\0t\2k\2v\0")
    offset = plain[at + 3 : at + 3 + offset_bytes]
    longer = offset[:-1] + bytes([offset[-1] | 0x80, 0])
    record = bytes([plain[at] + 2]) + plain[at + 1 : at + 3] + longer + plain[end - 5 : end]

    changed = plain[:at] + record + plain[end:]

    assert walk_records(header, changed, 10_000)[0] == (7, 7, 0, 0)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 8_191, 8_192, 70_000])
def test_fields_of_every_length_are_walked(length: int) -> None:
    batch = build([Record(n, 7, b"k" * length, b"v" * length) for n in range(3)])

    assert walk_batch(read_header(batch), batch) == (7, 7, 0, 0)


@pytest.mark.parametrize("null", ["01", "03", "81 01", "ff ff ff ff 0f"])
def test_any_negative_length_is_null(null: str) -> None:
    field = bytes.fromhex(null)
    body = b"\0\0\0" + field + field + b"\0"
    batch = build([Record(0, 7, None, None)])[:HEADER_SIZE] + bytes([2 * len(body)]) + body
    header = read_header(batch)._replace(batch_length=len(batch) - 12)

    assert walk_batch(header, batch) == (7, 7, 1, 0)


def test_times_before_the_first_one_count() -> None:
    entries = [Record(n, time, None, b"") for n, time in enumerate((500, 90_000, 20, 500))]
    header, plain = plain_of(build(entries))

    assert walk_batch(header, build(entries)) == (20, 90_000, 4, 0)
    assert timestamps_outside(header, RecordStream(iter((plain,))), (21, 89_999), 5) == [
        (1, 90_000),
        (2, 20),
    ]
    assert timestamps_outside(header, RecordStream(iter((plain,))), (21, 89_999), 1) == [
        (1, 90_000)
    ]


@pytest.mark.parametrize("bits", range(0, 62, 2))
def test_times_of_every_length_are_walked(bits: int) -> None:
    near = [7 + sign * ((1 << bits) + more) for sign in (-1, 1) for more in (-1, 0, 1)]
    batch = build([Record(n, time, None, b"") for n, time in enumerate([7, *near])])

    assert walk_batch(read_header(batch), batch) == (min(7, *near), max(7, *near), 7, 0)


@pytest.mark.parametrize("payload_bytes", [7, 70, 1_000])
def test_a_plain_batch_holds_a_record_per_seven_bytes_at_most(payload_bytes: int) -> None:
    header = read_header(build([Record(0, 0, None, None)]))
    most = payload_bytes // 7

    check_record_count(header._replace(record_count=most), HEADER_SIZE + payload_bytes)
    with refusal(ErrorCode.INVALID_RECORD):
        check_record_count(header._replace(record_count=most + 1), HEADER_SIZE + payload_bytes)


def test_the_smallest_records_are_not_refused_for_their_count() -> None:
    batch = build([Record(n, 0, None, None) for n in range(64)])

    assert len(batch) == HEADER_SIZE + 64 * 7
    check_record_count(read_header(batch), len(batch))


@pytest.mark.parametrize("codec", CODECS)
def test_no_codec_unpacks_to_more_than_its_bound(codec: int) -> None:
    plain = bytes(16 << 20)

    assert most_unpacked_bytes(codec, len(compress(codec, plain))) >= len(plain)


def test_a_zstd_block_of_one_repeated_byte_reaches_the_bound() -> None:
    block = (128 << 10 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"x"  # so often; repeated; last
    frame = b"\x28\xb5\x2f\xfd\x00\x38" + block

    assert decompress(ZSTD, frame) == b"x" * (128 << 10)
    assert most_unpacked_bytes(ZSTD, len(block)) == 128 << 10


@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_batch_has_no_more_records_than_could_be_unpacked(codec: int) -> None:
    header = read_header(build(RECORDS, options=BatchOptions(compression=codec)))
    most = most_unpacked_bytes(codec, 18) // 7

    check_record_count(header._replace(record_count=most), 79)
    with refusal(ErrorCode.INVALID_RECORD):
        check_record_count(header._replace(record_count=most + 1), 79)


LIKE_THE_FIRST = [
    Record(n, 7_000 + n % 3, b"key", b"v" * 90, (("h", b"1"), ("", None))) for n in range(130)
]


@pytest.mark.parametrize("index", [1, 63, 64, 65, 127, 129])
@pytest.mark.parametrize(
    "other",
    [
        {"timestamp": 6_000},
        {"timestamp": 7_063},
        {"timestamp": 7_064},
        {"key": None},
        {"key": b"k"},
        {"value": None},
        {"key": b"keys", "value": b"v" * 89},
        {"headers": ()},
        {"headers": (("", b"1"), ("h", None))},
    ],
    ids=str,
)
def test_one_record_unlike_all_others_is_found(index: int, other: dict[str, Any]) -> None:
    entries = LIKE_THE_FIRST.copy()
    entries[index] = entries[index]._replace(**other)
    times = [record.timestamp for record in entries]
    batch = build(entries)

    walked = walk_batch(read_header(batch), batch)

    assert walked == (min(times), max(times), sum(r.key is None for r in entries), 0)


@pytest.mark.parametrize("index", [0, 1, 64, 129])
def test_one_record_with_another_offset_than_all_others_like_it_is_found(index: int) -> None:
    entries = LIKE_THE_FIRST.copy()
    entries[index] = entries[index]._replace(offset=index ^ 1)
    batch = build(entries)

    header = read_header(batch)._replace(last_offset_delta=129)

    assert walk_batch(header, batch).misplaced == 1


@pytest.mark.parametrize("place", [0, 5, 9, 10, 101, 102, 104])
def test_records_that_all_lie_about_the_same_length_are_invalid(place: int) -> None:
    one = build([LIKE_THE_FIRST[0]])[HEADER_SIZE:]
    batch = bytearray(build(LIKE_THE_FIRST[:60]))
    assert len(batch) == HEADER_SIZE + 60 * len(one)
    for start in range(HEADER_SIZE, len(batch), len(one)):
        batch[start + place] ^= 2

    with refusal(ErrorCode.INVALID_RECORD):
        walk_batch(read_header(batch), batch)


@pytest.mark.parametrize("odd", [63, 64, 65, 200, 8_191, 8_192, 8_999])
def test_one_record_unlike_thousands_is_found(odd: int) -> None:
    entries = [Record(n, 7_000, b"k", b"v") for n in range(9_000)]
    entries[odd] = Record(odd, 6_999, None, b"vv")
    header, plain = plain_of(build(entries))

    assert walk_records(header, plain, 10_000)[0] == (6_999, 7_000, 1, 0)


@pytest.mark.parametrize("cut", [1, 50, 106])
def test_records_like_each_other_that_end_early_are_invalid(cut: int) -> None:
    header, plain = plain_of(build(LIKE_THE_FIRST[:60]))

    with refusal(ErrorCode.INVALID_RECORD):
        walk_records(header, plain[:-cut], 1_000)
