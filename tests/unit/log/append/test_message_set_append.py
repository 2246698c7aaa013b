"""Sets of old messages into topics of any format, and new batches into topics of an old one.

The expectations are answers and logs of Apache Kafka 3.9.2, with inter.broker.protocol.version 2.8
where the topic has an old format.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin, InvalidRecordsError, LogAppendInfo
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.record.compression import GZIP, LZ4, NONE, ZSTD, compress
from kbroker.record.default_record import Record
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.legacy_record import any_records, is_intact, read_any_header
from kbroker.record.record_batch import (
    LOG_APPEND_TIME,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    BatchOptions,
    build,
)
from tests.fakes.logs.log_maker import NOW_MS, open_log
from tests.fakes.logs.time_search import first_at

OLD = AppendOrigin.OLD_CLIENT
FORMAT_VERSION = {0: "0.9.0", 1: "0.10.0", 2: "3.0-IV1"}
FORMATS = pytest.mark.parametrize("target", [0, 1, 2])
NOTHING_STORED = (-1, -1)


def record(index: int, **changes: object) -> Record:
    plain = Record(index, NOW_MS + (0, 5, 3)[index % 3], b"k%d" % index, b"value %d" % index * 3)
    return plain._replace(**changes)  # type: ignore[arg-type]


THREE = [record(0), record(1), record(2)]


def log_of(path: Path, target: int = 2, **settings: Any) -> Log:
    return open_log(path, message_format_version=FORMAT_VERSION[target], **settings)


def append(log: Log, data: bytes, origin: AppendOrigin = OLD) -> LogAppendInfo:
    return log.append_as_leader(bytearray(data), 4, NOW_MS + 900, origin=origin)


def stored(log: Log) -> list[tuple[BatchHeader, bytes]]:
    def walk() -> Iterator[tuple[BatchHeader, bytes]]:
        data = log.read(0, 1 << 20, FetchIsolation.LOG_END).records.read()
        position = 0
        while position < len(data):
            header = read_any_header(data, position)
            message = data[position : position + header.size_bytes]
            assert is_intact(header, message)
            yield header, message
            position += header.size_bytes

    return list(walk())


def read(log: Log) -> list[Record]:
    return [entry for _, message in stored(log) for entry in any_records(message)]


def refusal(log: Log, data: bytes, origin: AppendOrigin = OLD) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        append(log, data, origin)
    assert log.log_end_offset == 0
    return caught.value


def in_format(entry: Record, target: int, source: int) -> Record:
    timestamp = entry.timestamp if target and source else -1
    return entry._replace(timestamp=timestamp, headers=())


@FORMATS
@pytest.mark.parametrize("source", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP, LZ4], ids=["none", "gzip", "lz4"])
def test_an_old_set_is_stored_in_the_topics_format(
    tmp_path: Path, source: int, target: int, codec: int
) -> None:
    log = log_of(tmp_path, target)

    infos = [append(log, build_legacy(THREE, source, codec)) for _ in range(2)]

    offsets = [(info.first_offset, info.last_offset, info.log_append_time) for info in infos]
    assert offsets == [(0, 2, -1), (3, 5, -1)]
    assert read(log) == [
        in_format(entry, target, source)._replace(offset=base + entry.offset)
        for base in (0, 3)
        for entry in THREE
    ]
    assert {(header.magic, header.compression) for header, _ in stored(log)} == {(target, codec)}


@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP, LZ4], ids=["none", "gzip", "lz4"])
def test_a_new_batch_comes_down_into_an_old_format(tmp_path: Path, target: int, codec: int) -> None:
    log = log_of(tmp_path, target)
    batch = build(THREE, options=BatchOptions(compression=codec))

    info = append(log, batch, AppendOrigin.CLIENT)

    assert (info.first_offset, info.last_offset) == (0, 2)
    expected = list(split(build_legacy(THREE, target, codec)))
    assert [message for _, message in stored(log)] == expected


def split(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        size = read_any_header(data, position).size_bytes
        yield data[position : position + size]
        position += size


def test_old_records_in_a_new_batch_have_leader_epoch_and_largest_time(tmp_path: Path) -> None:
    log = log_of(tmp_path)

    info = append(log, build_legacy(THREE, 1))

    ((header, _),) = stored(log)
    assert (header.partition_leader_epoch, header.max_timestamp) == (4, NOW_MS + 5)
    assert (info.max_timestamp, info.offset_of_max_timestamp) == (NOW_MS + 5, 2)
    assert log.leader_epoch_cache.entries == [(4, 0)]


@pytest.mark.parametrize("origin", [OLD, AppendOrigin.CLIENT])
def test_an_old_request_may_bring_a_new_batch(tmp_path: Path, origin: AppendOrigin) -> None:
    log = log_of(tmp_path)
    batch = build(THREE, options=BatchOptions(producer_id=7, producer_epoch=0, base_sequence=0))

    assert append(log, batch, origin).first_offset == 0
    assert append(log, batch, origin).duplicate


def message(index: int = 0, *, magic: int = 1, **changes: Any) -> bytes:
    return build_legacy([record(index, **changes)], magic)


def spoiled(data: bytes) -> bytes:
    return data[:-1] + bytes((data[-1] ^ 1,))


def with_attributes(data: bytes, attributes: int) -> bytes:
    """A single message with other attributes, its checksum made right."""
    body = data[16:17] + bytes((attributes,)) + data[18:]
    return data[:12] + struct.pack(">I", zlib.crc32(body)) + body


def wrapper(inner: bytes, offset: int, codec: int = GZIP, packed: bytes | None = None) -> bytes:
    value = bytes(compress(codec, inner)) if packed is None else packed
    outer = build_legacy([Record(offset, NOW_MS, None, value)], 1)
    return with_attributes(outer, codec)


CUT = [
    (b"", 0),
    (message()[:-3], 0),
    (message()[:16], 0),
    (message() + b"\0" * 5, 1),
    (message() + message(1)[:-3], 1),
    (build(THREE)[:-3], 0),
    (build(THREE) + build(THREE)[:-3], 3),
]


@pytest.mark.parametrize(("data", "count"), CUT)
def test_what_is_cut_off_at_the_end_is_left_out(tmp_path: Path, data: bytes, count: int) -> None:
    log = log_of(tmp_path)

    info = append(log, data)

    assert log.log_end_offset == count
    assert (info.first_offset, info.last_offset) == ((0, count - 1) if count else NOTHING_STORED)


REFUSED: dict[str, tuple[Callable[[], bytes], ErrorCode]] = {
    "zeros behind": (lambda: message() + b"\0" * 16, ErrorCode.CORRUPT_MESSAGE),
    "garbage": (lambda: b"\xff" * 40, ErrorCode.CORRUPT_MESSAGE),
    "format 3": (lambda: message()[:16] + b"\x03" + message()[17:], ErrorCode.CORRUPT_MESSAGE),
    "checksum": (lambda: message() + spoiled(message(1)), ErrorCode.CORRUPT_MESSAGE),
    "wrapped checksum": (
        lambda: wrapper(message() + spoiled(message(1)), 1),
        ErrorCode.CORRUPT_MESSAGE,
    ),
    "formats 0 and 1": (lambda: message(magic=0) + message(1), ErrorCode.INVALID_RECORD),
    "formats 1 and 0": (lambda: message() + message(1, magic=0), ErrorCode.INVALID_RECORD),
    "formats 1 and 2": (lambda: message() + build(THREE), ErrorCode.INVALID_RECORD),
    "formats 2 and 1": (lambda: build(THREE) + message(), ErrorCode.INVALID_RECORD),
    "two batches": (lambda: build(THREE) * 2, ErrorCode.INVALID_RECORD),
    "two wrappers": (lambda: wrapper(message(), 0) * 2, ErrorCode.INVALID_RECORD),
    "plain and wrapper": (lambda: message() + wrapper(message(), 0), ErrorCode.INVALID_RECORD),
    "wrapper and plain": (lambda: wrapper(message(), 0) + message(), ErrorCode.INVALID_RECORD),
    "zstd": (lambda: wrapper(message(), 0, ZSTD), ErrorCode.INVALID_RECORD),
    "codec 5": (
        lambda: with_attributes(message(), 5),
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ),
    "wrapped wrapper": (
        lambda: wrapper(wrapper(message(), 0), 0),
        ErrorCode.INVALID_RECORD,
    ),
    "wrapped format": (lambda: wrapper(message(magic=0), 0), ErrorCode.INVALID_RECORD),
    "wrapper of nothing": (lambda: wrapper(b"", 0), ErrorCode.INVALID_RECORD),
    "broken wrapper": (lambda: wrapper(b"", 0, packed=b"xyz"), ErrorCode.INVALID_RECORD),
    "null wrapper": (
        lambda: with_attributes(message(value=None), GZIP),
        ErrorCode.INVALID_RECORD,
    ),
    "wrapper offset": (
        lambda: wrapper(build_legacy(THREE, 1), 1),
        ErrorCode.INVALID_RECORD,
    ),
}


@pytest.mark.parametrize(("make", "code"), REFUSED.values(), ids=REFUSED)
def test_bad_sets_get_the_codes_of_kafka(
    tmp_path: Path, make: Callable[[], bytes], code: ErrorCode
) -> None:
    assert refusal(log_of(tmp_path), make()).code is code


def test_a_time_before_the_epoch_is_refused(tmp_path: Path) -> None:
    batch = build([record(0, timestamp=-5)])

    refused = refusal(log_of(tmp_path, 1), batch, AppendOrigin.CLIENT)

    assert refused.code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("offset", [0, 77])
def test_a_wrapper_with_another_offset_is_taken(tmp_path: Path, offset: int) -> None:
    log = log_of(tmp_path, 1)

    append(log, wrapper(build_legacy(THREE, 1), offset))

    assert read(log) == THREE


def test_a_wrapper_of_the_topics_format_keeps_its_packed_bytes(tmp_path: Path) -> None:
    log = log_of(tmp_path, 1)
    append(log, message())
    packed = bytes(compress(GZIP, build_legacy(THREE, 1), 1))

    append(log, wrapper(build_legacy(THREE, 1), 2, packed=packed))

    header, message_bytes = stored(log)[1]
    assert message_bytes.endswith(packed)
    assert (header.base_offset, header.max_timestamp) == (3, NOW_MS + 5)


def test_a_wrapper_whose_client_miscounted_is_packed_anew(tmp_path: Path) -> None:
    log = log_of(tmp_path, 1)
    inner = build_legacy([record(5), record(6)], 1)
    miscounted = inner.replace(struct.pack(">q", 6), struct.pack(">q", 5), 1)

    append(log, wrapper(miscounted, 5))

    assert [entry.offset for entry in read(log)] == [0, 1]


@FORMATS
@pytest.mark.parametrize("codec", [NONE, GZIP], ids=["none", "gzip"])
@pytest.mark.parametrize("source", [0, 1])
def test_the_brokers_time_is_told_and_stored_where_the_format_has_it(
    tmp_path: Path, source: int, target: int, codec: int
) -> None:
    log = log_of(tmp_path, target, message_timestamp_type="LogAppendTime")

    info = append(log, build_legacy(THREE, source, codec))

    stamp = NOW_MS + 900
    assert info.log_append_time == stamp
    assert {entry.timestamp for entry in read(log)} == {stamp if target else -1}
    assert {header.timestamp_type for header, _ in stored(log)} == {bool(target) * LOG_APPEND_TIME}


def test_a_client_does_not_set_the_brokers_time(tmp_path: Path) -> None:
    data = message() + with_attributes(message(1), TIMESTAMP_TYPE_BIT)

    refused = refusal(log_of(tmp_path, message_timestamp_type="LogAppendTime"), data)

    assert isinstance(refused, InvalidRecordsError)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in refused.record_errors] == [1]


def test_nor_in_a_new_batch(tmp_path: Path) -> None:
    log = log_of(tmp_path, message_timestamp_type="LogAppendTime")
    batch = build(THREE, options=BatchOptions(flags=TIMESTAMP_TYPE_BIT))

    refused = refusal(log, batch, AppendOrigin.CLIENT)

    assert isinstance(refused, InvalidRecordsError)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in refused.record_errors] == [0, 1, 2]


def test_elsewhere_that_bit_is_taken_off(tmp_path: Path) -> None:
    log = log_of(tmp_path, 1)

    append(log, with_attributes(message(), TIMESTAMP_TYPE_BIT))

    ((header, _),) = stored(log)
    assert header.timestamp_type == 0


def test_times_out_of_bounds_are_refused(tmp_path: Path) -> None:
    log = log_of(tmp_path, message_timestamp_before_max_ms=10_000)

    refused = refusal(log, message() + message(1, timestamp=NOW_MS - 9_999_999))

    assert refused.code is ErrorCode.INVALID_TIMESTAMP


def test_messages_without_time_are_within_all_bounds(tmp_path: Path) -> None:
    log = log_of(tmp_path, message_timestamp_before_max_ms=10_000)

    assert append(log, message(magic=0)).first_offset == 0


KEYLESS = {"key": None}
UNTIMELY = {"timestamp": NOW_MS - 90_000}


@pytest.mark.parametrize(
    ("codec", "changes", "code"),
    [
        (NONE, (KEYLESS, UNTIMELY), ErrorCode.INVALID_RECORD),  # the first message decides
        (NONE, (UNTIMELY, KEYLESS), ErrorCode.INVALID_TIMESTAMP),
        (NONE, (KEYLESS | UNTIMELY, {}), ErrorCode.INVALID_RECORD),
        (GZIP, (KEYLESS, UNTIMELY), ErrorCode.INVALID_TIMESTAMP),  # a time does
        (GZIP, (KEYLESS | UNTIMELY, {}), ErrorCode.INVALID_RECORD),
    ],
)
def test_of_a_wrong_time_and_a_missing_key_that_is_told_which_counts_in_kafka(
    tmp_path: Path, codec: int, changes: tuple[dict[str, Any], ...], code: ErrorCode
) -> None:
    log = log_of(tmp_path, cleanup_policy=("compact",), message_timestamp_before_max_ms=9_000)
    records = [record(index, **each) for index, each in enumerate(changes)]

    assert refusal(log, build_legacy(records, 1, codec)).code == code


@FORMATS
def test_a_compacted_topic_wants_keys(tmp_path: Path, target: int) -> None:
    log = log_of(tmp_path, target, cleanup_policy=("compact",))

    refused = refusal(log, message() + message(1, key=None))

    assert refused.code is ErrorCode.INVALID_RECORD
    assert isinstance(refused, InvalidRecordsError)
    assert append(log, message(1, value=None)).first_offset == 0


CODECS = [("gzip", GZIP), ("lz4", LZ4), ("uncompressed", NONE)]


@FORMATS
@pytest.mark.parametrize("source", [NONE, GZIP], ids=["plain", "packed"])
@pytest.mark.parametrize(("name", "codec"), CODECS)
def test_the_topics_codec_counts(
    tmp_path: Path, target: int, source: int, name: str, codec: int
) -> None:
    log = log_of(tmp_path, target, compression_type=name)

    append(log, build_legacy(THREE, 1, source))

    assert {header.compression for header, _ in stored(log)} == {codec}
    assert len(read(log)) == 3


@pytest.mark.parametrize("target", [0, 1])
def test_old_formats_have_no_zstd(tmp_path: Path, target: int) -> None:
    plain, packed = build(THREE), build(THREE, options=BatchOptions(compression=ZSTD))
    unsupported = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    for_codec = log_of(tmp_path / "codec", target, compression_type="zstd")
    assert refusal(for_codec, plain, AppendOrigin.CLIENT).code is unsupported
    for_batch = log_of(tmp_path / "batch", target)
    assert refusal(for_batch, packed, AppendOrigin.CLIENT).code is unsupported


LOST = {
    "idempotent": build(
        THREE, options=BatchOptions(producer_id=7, producer_epoch=0, base_sequence=0)
    ),
    "transactional": build(
        THREE,
        options=BatchOptions(
            flags=TRANSACTIONAL_BIT, producer_id=7, producer_epoch=0, base_sequence=0
        ),
    ),
    "headers": build([record(0, headers=(("h", b"1"),))]),
}


@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("batch", LOST.values(), ids=LOST)
def test_what_an_old_format_cannot_hold_is_refused(
    tmp_path: Path, target: int, batch: bytes
) -> None:
    refused = refusal(log_of(tmp_path, target), batch, AppendOrigin.CLIENT)

    assert refused.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_messages_are_measured_before_and_after_they_are_converted(tmp_path: Path) -> None:
    limit = len(message(value=b"x" * 60))
    log = log_of(tmp_path, max_message_bytes=limit)

    too_long = refusal(log, message(value=b"x" * 61))
    together = refusal(log, message(value=b"x" * 60) + message(1, value=b"x" * 60))

    assert too_long.code is together.code is ErrorCode.MESSAGE_TOO_LARGE
    assert (
        append(log_of(tmp_path / "1", 1, max_message_bytes=limit), message() * 9).last_offset == 8
    )


def test_a_set_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = log_of(tmp_path, 1, segment_bytes=500)

    assert refusal(log, message() * 20).code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_segment_that_begins_with_a_wrapper_is_named_after_the_first_wrapped(
    tmp_path: Path,
) -> None:
    log = log_of(tmp_path, 1, segment_bytes=400)
    for _ in range(6):
        append(log, build_legacy(THREE, 1, GZIP))

    names = [segment.base_offset for segment in log.segments]

    assert len(names) > 1
    assert all(name % 3 == 0 for name in names)
    for offset in range(18):
        assert log.read(offset, 1 << 20, FetchIsolation.LOG_END).records.read()


def test_a_log_whose_format_was_raised_twice_holds_all_three(tmp_path: Path) -> None:
    log = log_of(tmp_path, 0)
    for target in (0, 1, 2):
        log.update_config(log_of(tmp_path / str(target), target).config)
        append(log, build_legacy(THREE, 1))

    assert [header.magic for header, _ in stored(log)] == [0, 0, 0, 1, 1, 1, 2]
    assert [entry.offset for entry in read(log)] == list(range(9))
    found = first_at(log, NOW_MS + 5)
    assert found is not None
    assert (found.timestamp, found.offset) == (NOW_MS + 5, 4)


def test_a_level_packs_smaller(tmp_path: Path) -> None:
    entries = [record(n, value=b"%d and %x" % (n, n * n * 7919 % 65_521)) for n in range(500)]
    logs = [
        log_of(tmp_path / str(level), compression_type="gzip", compression_gzip_level=level)
        for level in (1, 9)
    ]
    for log in logs:
        append(log, build(entries), AppendOrigin.CLIENT)

    quick, small = (stored(log)[0][0].size_bytes for log in logs)

    assert small < quick


@FORMATS
@pytest.mark.parametrize("name", ["gzip", "lz4"])
@pytest.mark.parametrize("origin", [OLD, AppendOrigin.CLIENT], ids=["old set", "new batch"])
def test_every_codec_has_its_level(
    tmp_path: Path, target: int, name: str, origin: AppendOrigin
) -> None:
    level = {f"compression_{name}_level": 2}
    log = log_of(tmp_path, target, compression_type=name, **level)

    append(log, build_legacy(THREE, 1) if origin is OLD else build(THREE), origin)

    assert {header.compression for header, _ in stored(log)} == {{"gzip": GZIP, "lz4": LZ4}[name]}
    assert [entry.value for entry in read(log)] == [entry.value for entry in THREE]
