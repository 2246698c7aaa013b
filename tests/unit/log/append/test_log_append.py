"""Batches whose header says other things than their records: corrected as Kafka corrects them, so
that what is stored is found by time, kept as long as it should be, and read by everyone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.inspection.batch_check import header_problems
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import InvalidRecordsError
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.record.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kbroker.record.record_batch import (
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    BatchOptions,
    Record,
    build,
    join_batch,
    payload,
    read_header,
    records,
)
from tests.fakes.logs.log_maker import NOW_MS, delete_old_segments, open_log
from tests.fakes.logs.time_search import first_at
from tests.fakes.logs.verified_batches import verified

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
DAY_MS = 86_400_000
AGED, FRESH = NOW_MS - 8 * DAY_MS, NOW_MS
UNKNOWN_BITS = 0x7F80  # neither Kafka nor anybody else gives them a meaning


def claiming(batch: bytes, **changes: int) -> bytearray:
    """The batch with other fields in its header, and the CRC that fits."""
    header = read_header(batch)._replace(**changes)
    plain = bytes(payload(read_header(batch), batch))
    return bytearray(join_batch(header, plain))


def sent(*times: int, codec: int = NONE, claimed: int | None = None) -> bytearray:
    entries = [Record(n, time, b"k", b"v") for n, time in enumerate(times)]
    options = BatchOptions(compression=codec, base_timestamp=min(times), max_timestamp=claimed)
    return bytearray(build(entries, options=options))


def stored(log: Log) -> tuple[BatchHeader, list[Record]]:
    data = log.read(0, 1 << 20, FetchIsolation.LOG_END).records.read()
    return read_header(data), list(records(data))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("times", [(AGED, FRESH), (FRESH, AGED)], ids=["aged first", "fresh first"])
def test_a_fresh_record_that_the_header_leaves_out_is_found_and_kept(
    tmp_path: Path, codec: int, times: tuple[int, int]
) -> None:
    log = open_log(tmp_path, retention_ms=7 * DAY_MS)

    info = log.append_as_leader(sent(*times, codec=codec, claimed=AGED), 0, NOW_MS)

    log.update_high_watermark(2)
    assert info.max_timestamp == stored(log)[0].max_timestamp == FRESH
    found = first_at(log, FRESH)
    assert found is not None
    assert found.offset == times.index(FRESH)
    assert delete_old_segments(log, NOW_MS + 1) == 0
    assert delete_old_segments(log, NOW_MS + 8 * DAY_MS) == 1


@pytest.mark.parametrize("codec", CODECS)
def test_a_header_from_the_future_does_not_keep_aged_records(tmp_path: Path, codec: int) -> None:
    log = open_log(tmp_path, retention_ms=7 * DAY_MS)

    log.append_as_leader(sent(AGED, AGED + 1, codec=codec, claimed=2**62), 0, NOW_MS)

    log.update_high_watermark(2)
    assert stored(log)[0].max_timestamp == AGED + 1
    assert delete_old_segments(log, NOW_MS) == 1


def test_records_without_time_have_no_newest_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)

    log.append_as_leader(sent(-7, -5), 0, NOW_MS)

    assert stored(log)[0].max_timestamp == -1


MISPLACED = [(0, 2, 7), (5, 6, 7), (2, 1, 0), (0, 0, 0), (-9, 1, 2**31 - 1)]


def misplaced(offsets: tuple[int, ...], codec: int) -> tuple[bytearray, list[Record]]:
    """A batch of a transaction with these offsets, and the records as they should be."""
    entries = [
        Record(offset, NOW_MS + n, b"%d" % n, None, (("h\udcff", b"x"),))
        for n, offset in enumerate(offsets)
    ]
    options = BatchOptions(
        flags=TRANSACTIONAL_BIT,
        compression=codec,
        last_offset=2,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    )
    right = [entry._replace(offset=n) for n, entry in enumerate(entries)]
    return bytearray(build(entries, options=options)), right


@pytest.mark.parametrize("offsets", MISPLACED)
@pytest.mark.parametrize(
    ("sent_codec", "topic", "stored_codec"),
    [(NONE, "producer", NONE), (NONE, "zstd", ZSTD), (GZIP, "uncompressed", NONE)],
)
def test_records_are_renumbered_where_their_offsets_do_not_follow_each_other(
    tmp_path: Path, offsets: tuple[int, ...], sent_codec: int, topic: str, stored_codec: int
) -> None:
    log = open_log(tmp_path, compression_type=topic)
    wrong, right = misplaced(offsets, sent_codec)

    log.append_as_leader(verified(log, wrong), 3, NOW_MS)

    header, found = stored(log)
    assert (header.last_offset, header.partition_leader_epoch, header.producer_id) == (2, 3, 7)
    assert (header.is_transactional, header.compression) == (True, stored_codec)
    assert found == right


@pytest.mark.parametrize("offsets", MISPLACED)
@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_records_whose_offsets_do_not_follow_each_other_are_refused(
    tmp_path: Path, offsets: tuple[int, ...], codec: int
) -> None:
    log = open_log(tmp_path)

    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(misplaced(offsets, codec)[0], 3, NOW_MS)

    assert refused.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("stamps", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_count_that_lies_is_refused_whatever_the_codec(
    tmp_path: Path, codec: int, stamps: str
) -> None:
    lying = claiming(sent(1, 2, codec=codec), record_count=3, last_offset_delta=2)
    log = open_log(tmp_path / "full", message_timestamp_type=stamps)
    header_only = open_log(tmp_path / "header", walks_records=False, message_timestamp_type=stamps)

    assert header_only.append_as_leader(bytearray(lying), 0, NOW_MS).first_offset == 0
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(lying, 0, NOW_MS)
    assert refused.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("claimed", [NOW_MS, NOW_MS + 1], ids=["right", "wrong"])
def test_bits_that_mean_nothing_stay_until_a_header_is_corrected(
    tmp_path: Path, claimed: int
) -> None:
    log = open_log(tmp_path)
    data = claiming(sent(NOW_MS), attributes=UNKNOWN_BITS, max_timestamp=claimed)

    log.append_as_leader(data, 0, NOW_MS)

    assert stored(log)[0].attributes == (UNKNOWN_BITS if claimed == NOW_MS else 0)
    log.close()
    segment = (tmp_path / "00000000000000000000.log").read_bytes()
    assert list(header_problems(read_header(segment), 0)) == []


@pytest.mark.parametrize("topic", ["zstd", "producer"])
def test_a_batch_that_is_made_again_keeps_what_a_producer_may_set(
    tmp_path: Path, topic: str
) -> None:
    log = open_log(tmp_path, compression_type=topic)
    marked = claiming(sent(1, 2), attributes=UNKNOWN_BITS | DELETE_HORIZON_BIT)

    log.append_as_leader(marked, 0, NOW_MS)

    kept = UNKNOWN_BITS | DELETE_HORIZON_BIT if topic == "producer" else ZSTD
    assert stored(log)[0].attributes == kept


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("times", "keys", "code", "named"),
    [
        ((FRESH, AGED, FRESH), (b"k", b"k", None), ErrorCode.INVALID_TIMESTAMP, [1, 2]),
        ((FRESH, AGED, FRESH), (None, None, b"k"), ErrorCode.INVALID_RECORD, [0, 1]),
        ((FRESH, -1, FRESH), (None, b"k", b"k"), ErrorCode.INVALID_RECORD, [0]),
    ],
)
def test_of_wrong_times_and_missing_keys_all_are_named_under_the_code_that_counts_in_kafka(
    tmp_path: Path,
    codec: int,
    times: tuple[int, ...],
    keys: tuple[bytes | None, ...],
    code: ErrorCode,
    named: list[int],
) -> None:
    log = open_log(tmp_path, cleanup_policy=("compact",), message_timestamp_before_max_ms=DAY_MS)
    entries = [
        Record(n, time, key, b"v") for n, (time, key) in enumerate(zip(times, keys, strict=True))
    ]

    with pytest.raises(InvalidRecordsError) as caught:
        log.append_as_leader(
            bytearray(build(entries, options=BatchOptions(compression=codec))), 0, NOW_MS
        )

    assert caught.value.code is code
    assert [error.batch_index for error in caught.value.record_errors] == named


def test_a_time_so_early_that_java_counts_it_as_late_does_not_count_beside_a_missing_key(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path, cleanup_policy=("compact",))
    entries = [Record(0, -(2**63) + 1, b"k", b"v"), Record(1, -(2**63) + 1, None, b"v")]

    with pytest.raises(InvalidRecordsError) as caught:
        log.append_as_leader(bytearray(build(entries)), 0, NOW_MS)

    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in caught.value.record_errors] == [1]


def test_beside_a_missing_key_a_record_stamped_by_its_client_has_the_time_of_its_header(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path, cleanup_policy=("compact",), message_timestamp_before_max_ms=DAY_MS)
    entries = [Record(0, AGED, b"k", b"v"), Record(1, FRESH, None, b"v")]
    options = BatchOptions(flags=TIMESTAMP_TYPE_BIT, max_timestamp=FRESH)

    with pytest.raises(InvalidRecordsError) as caught:
        log.append_as_leader(bytearray(build(entries, options=options)), 0, NOW_MS)

    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in caught.value.record_errors] == [1]
