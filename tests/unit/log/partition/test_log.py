"""One log: what appends refuse and store, what reads see, how segments roll, go, are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastcrc.crc32 import iscsi

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import (
    AppendOrigin,
    InvalidRecordsError,
    InvalidRecordSetError,
)
from kbroker.log.segments.fetch_data_info import FetchIsolation, TimestampAndOffset
from kbroker.record.record_batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    assign_offset,
    build_marker,
    read_header,
    records,
)
from tests.fakes.logs.log_maker import (
    NOW_MS,
    batch,
    delete_old_segments,
    open_log,
    read_values,
    remove_deleted_files,
)
from tests.fakes.logs.time_search import first_at, first_of_newest
from tests.fakes.logs.verified_batches import verified

LOG_END = FetchIsolation.LOG_END
COMMITTED = FetchIsolation.TXN_COMMITTED


def append(log: Log, *values: bytes, **options: Any) -> int:
    """The base offset of a batch with these values."""
    data = verified(log, batch(*values, **options))
    return log.append_as_leader(data, 0, NOW_MS).first_offset


def refusal(log: Log, data: bytearray) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(data, 0, NOW_MS)
    assert log.log_end_offset == 0
    return caught.value


def end_transaction(log: Log, pid: int, *, commit: bool) -> None:
    options = BatchOptions(producer_id=pid, producer_epoch=0)
    marker = bytearray(build_marker(ControlRecord(commit, 0), NOW_MS, options=options))
    log.append_as_leader(marker, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)


def test_an_append_gives_offsets_and_leader_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b")

    info = log.append_as_leader(batch(b"c", partition_leader_epoch=9), 4, NOW_MS)

    header = read_header(log.read(2, 1000, LOG_END).records.read())
    assert (info.first_offset, info.last_offset, info.log_append_time) == (2, 2, -1)
    assert (header.base_offset, header.partition_leader_epoch) == (2, 4)
    assert log.leader_epoch_cache.entries == [(0, 0), (4, 2)]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda b: b"", ErrorCode.INVALID_RECORD),
        (lambda b: b[:-5], ErrorCode.INVALID_RECORD),
        (lambda b: b + batch(b"x"), ErrorCode.INVALID_RECORD),
        (lambda b: b"\xff" * 20, ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b[:16] + b"\x03" + b[17:], ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b[:16] + b"\x01" + b[17:], ErrorCode.INVALID_RECORD),
        (lambda b: b[:-1] + bytes([b[-1] ^ 1]), ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b + bytes(20), ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b + bytes(8) + b"\0\0\0\x63" + b"\0\0\0\0\3", ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b[:8] + b"\0\0\0\x2f" + b[12:59], ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b[:8] + b"\0\0\0\x30" + b[12:59], ErrorCode.INVALID_RECORD),
    ],
    ids=[
        "nothing", "cut", "two batches", "garbage", "magic 3", "magic 1", "flipped bit",
        "zeros after it", "magic 3 after it", "ends amid its header", "cut amid its header",
    ],
)  # fmt: skip
def test_what_is_no_single_whole_batch_is_refused(
    tmp_path: Path, change: Any, code: ErrorCode
) -> None:
    log = open_log(tmp_path)

    assert refusal(log, bytearray(change(batch(b"a")))).code == code


@pytest.mark.parametrize("after", [b"\0" * 5, b"\xff" * 11, b"second"], ids=["zeros", "ff", "cut"])
def test_what_is_left_of_a_second_batch_is_let_be(tmp_path: Path, after: bytes) -> None:
    log = open_log(tmp_path)
    first = batch(b"a")
    second = batch(b"x")[:40] if after == b"second" else after

    info = log.append_as_leader(bytearray(first + second), 0, NOW_MS)

    assert info.records_size_bytes == len(first)
    assert log.append_as_leader(batch(b"b"), 0, NOW_MS).first_offset == 1
    assert read_values(log.read(0, 1 << 20, LOG_END).records.read()) == [b"a", b"b"]


def test_a_malformed_set_is_told_apart_from_a_bad_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)

    malformed = refusal(log, bytearray())
    bad = refusal(log, batch(b"a", flags=CONTROL_BIT))

    assert isinstance(malformed, InvalidRecordSetError)
    assert not isinstance(bad, InvalidRecordSetError)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"base_offset": 77}, "should be 0, but it is 77"),
        ({"flags": CONTROL_BIT}, "not allowed to write control records"),
        ({"producer_id": 5, "producer_epoch": 0}, "Invalid sequence number -1"),
        ({"last_offset": 5}, "Inconsistent batch offset range"),
    ],
)
def test_headers_no_client_may_send_are_refused(
    tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    log = open_log(tmp_path)

    error = refusal(log, batch(b"a", **options))

    assert error.code == ErrorCode.INVALID_RECORD
    assert reason in str(error)


def test_an_unknown_codec_is_refused(tmp_path: Path) -> None:
    data = batch(b"a")
    data[22] = 5
    data[17:21] = iscsi(bytes(data[21:])).to_bytes(4, "big")

    assert refusal(open_log(tmp_path), data).code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_max_message_bytes_counts_the_whole_batch(tmp_path: Path) -> None:
    data = batch(b"a" * 100)
    exact = open_log(tmp_path / "exact", max_message_bytes=len(data))
    less = open_log(tmp_path / "less", max_message_bytes=len(data) - 1)

    assert exact.append_as_leader(bytearray(data), 0, NOW_MS).first_offset == 0
    assert refusal(less, bytearray(data)).code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=100)

    assert refusal(log, batch(b"a" * 100)).code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_compacted_topic_names_the_records_without_key(tmp_path: Path) -> None:
    log = open_log(tmp_path, cleanup_policy=("compact",))

    error = refusal(log, batch(b"a", b"b", key=None))

    reason = "Compacted topic cannot accept message without key in topic partition t-0"
    assert isinstance(error, InvalidRecordsError)
    assert error.code == ErrorCode.INVALID_RECORD
    assert error.record_errors == [(0, reason), (1, reason)]
    assert error.message == (
        "One or more records have been rejected due to 2 record errors in total, "
        "and only showing the first "
        f"three errors at most: [RecordError(batchIndex=0, message='{reason}'), "
        f"RecordError(batchIndex=1, message='{reason}')]"
    )


def test_a_timestamp_out_of_bounds_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path, message_timestamp_before_max_ms=1000)

    error = refusal(log, batch(b"a", timestamp=NOW_MS - 1001))

    assert isinstance(error, InvalidRecordsError)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert error.message == "One or more records have been rejected due to invalid timestamp"
    assert error.record_errors[0].message.startswith(
        f"Timestamp {NOW_MS - 1001} of message with offset 0 is out of range. "
        f"The timestamp should be within [{NOW_MS - 1000}, -"
    )


@pytest.mark.parametrize("timestamp", [-1, NOW_MS - 1000, NOW_MS + 500])
def test_timestamps_within_bounds_are_taken(tmp_path: Path, timestamp: int) -> None:
    log = open_log(
        tmp_path, message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500
    )

    assert append(log, b"a", timestamp=timestamp) == 0


def test_log_append_time_is_stamped_into_the_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime")

    info = log.append_as_leader(batch(b"a", timestamp=5), 0, NOW_MS)

    data = log.read(0, 1000, LOG_END).records.read()
    header = read_header(data)
    assert info.log_append_time == info.max_timestamp == NOW_MS
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (8, 5, NOW_MS)
    assert log.append_as_follower(_shifted(data, 1), NOW_MS).last_offset == 1


def _shifted(data: bytes, offset: int) -> bytearray:
    moved = bytearray(data)
    assign_offset(moved, 0, offset, 0)
    return moved


def test_a_producers_claim_of_log_append_time_is_taken_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)

    log.append_as_leader(batch(b"a", timestamp=5, flags=0x08, max_timestamp=99), 0, NOW_MS)

    header = read_header(log.read(0, 1000, LOG_END).records.read())
    assert (header.attributes, header.max_timestamp) == (0, 5)


@pytest.mark.parametrize(
    ("topic", "sent", "stored"),
    [("gzip", 0, 1), ("uncompressed", 1, 0), ("producer", 1, 1), ("zstd", 1, 4)],
)
def test_the_topics_codec_wins_over_the_producers(
    tmp_path: Path, topic: str, sent: int, stored: int
) -> None:
    log = open_log(tmp_path, compression_type=topic)

    log.append_as_leader(batch(b"a" * 200, b"b", compression=sent), 0, NOW_MS)

    data = log.read(0, 10_000, LOG_END).records.read()
    assert read_header(data).compression == stored
    assert [record.value for record in records(data)] == [b"a" * 200, b"b"]


def test_a_repeated_batch_gets_its_old_offsets_and_is_not_stored(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    options = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    append(log, b"x")
    append(log, b"a", b"b", **options)
    append(log, b"y")

    info = log.append_as_leader(batch(b"a", b"b", **options), 0, NOW_MS + 1)

    assert (info.first_offset, info.last_offset, info.duplicate) == (1, 2, True)
    assert info.log_append_time == NOW_MS
    assert log.log_end_offset == 4


def test_a_refused_sequence_changes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", producer_id=5, producer_epoch=0, base_sequence=0)

    with pytest.raises(KafkaError) as caught:
        append(log, b"b", producer_id=5, producer_epoch=0, base_sequence=5)

    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 1
    assert append(log, b"b", producer_id=5, producer_epoch=0, base_sequence=1) == 1


def test_readers_see_only_what_their_isolation_allows(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    append(log, b"b", producer_id=5, producer_epoch=0, base_sequence=0, flags=TRANSACTIONAL_BIT)
    append(log, b"c")
    log.update_high_watermark(2)

    def seen(isolation: FetchIsolation) -> list[bytes | None]:
        return read_values(log.read(0, 10_000, isolation).records.read())

    assert seen(FetchIsolation.LOG_END) == [b"a", b"b", b"c"]
    assert seen(FetchIsolation.HIGH_WATERMARK) == [b"a", b"b"]
    assert seen(FetchIsolation.TXN_COMMITTED) == [b"a"]


def test_committed_reads_name_aborted_transactions_of_later_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"b", producer_id=5, producer_epoch=0, base_sequence=0, flags=TRANSACTIONAL_BIT)
    log.roll(NOW_MS)
    end_transaction(log, 5, commit=False)
    log.update_high_watermark(2)

    info = log.read(0, 10_000, COMMITTED)

    assert info.aborted_transactions == [(5, 0, 1, 2)]
    assert log.read(0, 10_000).aborted_transactions is None
    assert log.last_stable_offset == 2


def test_aborted_transactions_are_named_after_their_segment_was_rolled_and_cut(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    log.roll(NOW_MS)
    log.update_high_watermark(1)
    assert log.read(0, 10_000, COMMITTED).aborted_transactions == []
    append(log, b"b", producer_id=5, producer_epoch=0, base_sequence=0, flags=TRANSACTIONAL_BIT)
    end_transaction(log, 5, commit=False)
    log.roll(NOW_MS)
    append(log, b"c")
    log.update_high_watermark(4)

    before = log.read(1, 10_000, COMMITTED).aborted_transactions
    log.truncate_to(2)
    append(log, b"d")
    log.update_high_watermark(3)

    assert before == [(5, 1, 2, 3)]
    assert log.read(0, 10_000, COMMITTED).aborted_transactions == []


def test_a_committed_transaction_is_not_among_the_aborted(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"b", producer_id=5, producer_epoch=0, base_sequence=0, flags=TRANSACTIONAL_BIT)
    end_transaction(log, 5, commit=True)
    log.update_high_watermark(2)

    assert log.read(0, 10_000, COMMITTED).aborted_transactions == []


def test_the_stable_offset_waits_for_the_high_watermark(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"b", producer_id=5, producer_epoch=0, base_sequence=0, flags=TRANSACTIONAL_BIT)
    end_transaction(log, 5, commit=True)

    log.update_high_watermark(1)
    before = log.last_stable_offset
    log.update_high_watermark(2)

    assert (before, log.last_stable_offset) == (0, 2)


@pytest.mark.parametrize("offset", [-1, 0, 1, 4])
def test_offsets_outside_the_log_are_out_of_range(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b", b"c")
    log.update_high_watermark(3)
    log.maybe_increment_log_start_offset(2)

    with pytest.raises(KafkaError) as caught:
        log.read(offset, 100, LOG_END)

    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_read_at_the_end_is_empty(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")

    assert len(log.read(1, 100, LOG_END, True).records) == 0
    assert len(log.read(0, 100, FetchIsolation.HIGH_WATERMARK, True).records) == 0


def test_the_first_batch_comes_whole_only_when_asked(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a" * 100)
    append(log, b"b")

    assert len(log.read(0, 10, LOG_END, False).records) == 10
    assert read_values(log.read(0, 10, LOG_END, True).records.read()) == [b"a" * 100]


def test_a_read_from_the_middle_of_a_batch_gives_the_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    append(log, b"b", b"c")

    assert read_values(log.read(2, 1000, LOG_END).records.read()) == [b"b", b"c"]


def test_a_read_in_a_hole_moves_on(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_follower(batch(b"a"))
    log.roll(NOW_MS)
    log.append_as_follower(batch(b"z", base_offset=50))

    assert read_values(log.read(7, 1000, LOG_END).records.read()) == [b"z"]


def test_segments_roll_by_size_and_by_age(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=200, segment_ms=1000)
    append(log, b"a" * 100)
    append(log, b"b" * 100)
    append(log, b"c", timestamp=NOW_MS + 1001)

    assert log.segments.base_offsets == [0, 1, 2]
    assert (tmp_path / "00000000000000000001.snapshot").read_bytes()[:2] == b"\x00\x01"


def test_rolling_an_empty_segment_changes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)

    log.roll(NOW_MS)

    assert log.segments.base_offsets == [0]


def test_timestamps_find_the_first_record_at_or_after_them(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=300)
    append(log, b"a", b"b", timestamp=1000)
    append(log, b"c" * 150, b"d", timestamp=2000)
    append(log, b"e", b"f", timestamp=3000)

    answers = [first_at(log, t) for t in (0, 2000, 2001, 3001)]

    assert answers == [(1000, 0, 0), (2000, 2, 0), (3000, 4, 0), None]
    assert first_of_newest(log) == TimestampAndOffset(3000, 4, 0)


def test_an_empty_log_has_no_timestamps(tmp_path: Path) -> None:
    log = open_log(tmp_path)

    assert first_at(log, 1) is None
    assert first_of_newest(log) is None


def test_records_without_time_are_found_as_the_largest_time_only(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", timestamp=-1)

    assert first_at(log, 0) is None
    assert first_of_newest(log) == TimestampAndOffset(-1, 0, 0)


def test_the_high_watermark_stays_within_the_log_and_never_falls(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b", b"c")

    assert [log.update_high_watermark(offset) for offset in (2, 1, 9, 0)] == [2, 2, 3, 3]


def test_the_log_start_cannot_pass_the_high_watermark(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b")
    log.update_high_watermark(1)

    with pytest.raises(KafkaError) as caught:
        log.maybe_increment_log_start_offset(2)

    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.maybe_increment_log_start_offset(1)
    assert not log.maybe_increment_log_start_offset(1)


def filled(directory: Path, **settings: Any) -> Log:
    """Five segments with one record each, all below the high watermark."""
    log = open_log(directory, segment_bytes=200, **settings)
    for index in range(5):
        append(log, b"x" * 100, timestamp=NOW_MS + index)
    log.update_high_watermark(5)
    return log


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"retention_ms": 10}, [0, 1, 2, 3, 4]),
        ({"retention_ms": 2}, [2, 3, 4]),
        ({"retention_ms": -1}, [0, 1, 2, 3, 4]),
        ({"retention_ms": -1, "retention_bytes": 400}, [2, 3, 4]),
        ({"retention_ms": 0, "cleanup_policy": ("compact",)}, [0, 1, 2, 3, 4]),
    ],
)
def test_retention_takes_the_oldest_segments(
    tmp_path: Path, settings: dict[str, Any], kept: list[int]
) -> None:
    log = filled(tmp_path, **settings)

    removed = delete_old_segments(log, NOW_MS + 4)

    assert log.segments.base_offsets == kept
    assert removed == 5 - len(kept)
    assert log.log_start_offset == kept[0]


def test_retention_of_everything_leaves_an_empty_segment_at_the_end(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=0)

    delete_old_segments(log, NOW_MS + 1000)

    assert log.segments.base_offsets == [5]
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert append(log, b"z") == 5


def test_retention_stops_at_the_high_watermark(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=200, retention_ms=0)
    for _ in range(3):
        append(log, b"x" * 100)
    log.update_high_watermark(1)

    delete_old_segments(log, NOW_MS + 1000)

    assert log.segments.base_offsets == [1, 2]


def test_deleted_records_take_their_segments_with_them(tmp_path: Path) -> None:
    log = filled(tmp_path, cleanup_policy=("compact",))
    log.maybe_increment_log_start_offset(3)

    delete_old_segments(log, NOW_MS)

    assert log.segments.base_offsets == [3, 4]


def test_files_go_after_the_delay(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=2, file_delete_delay_ms=100)
    slice_held = log.read(0, 1000).records
    delete_old_segments(log, NOW_MS + 4)

    assert (tmp_path / "00000000000000000000.log.deleted").exists()
    assert read_values(slice_held.read()) == [b"x" * 100]
    assert remove_deleted_files(log, NOW_MS + 103) == 0
    assert remove_deleted_files(log, NOW_MS + 104) == 2
    assert not list(tmp_path.glob("*.deleted"))


@pytest.mark.parametrize(
    ("cut", "segments"), [(5, [0, 2, 4, 5]), (3, [0, 2, 3]), (2, [0, 2]), (1, [0, 1])]
)
def test_truncation_cuts_segments_epochs_and_watermarks(
    tmp_path: Path, cut: int, segments: list[int]
) -> None:
    log = open_log(tmp_path, segment_bytes=320)
    for epoch in range(6):
        log.append_as_leader(batch(b"x" * 80), epoch, NOW_MS)
    log.update_high_watermark(6)

    assert log.truncate_to(cut)

    assert log.segments.base_offsets == segments
    assert (log.log_end_offset, log.high_watermark) == (cut, cut)
    assert log.leader_epoch_cache.latest_epoch == cut - 1
    assert append(log, b"new") == cut


def test_truncation_above_the_end_does_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")

    assert not log.truncate_to(1)


def test_truncation_forgets_the_producers_of_what_it_cuts(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    append(log, b"b", producer_id=5, producer_epoch=0, base_sequence=1, flags=TRANSACTIONAL_BIT)

    log.truncate_to(1)

    assert log.producer_state.producers[5].last_sequence == 0
    assert log.producer_state.first_unstable_offset is None
    assert append(log, b"c", producer_id=5, producer_epoch=0, base_sequence=1) == 1


def test_a_full_truncation_starts_anew_elsewhere(tmp_path: Path) -> None:
    log = filled(tmp_path)

    log.truncate_fully_and_start_at(100)

    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (100, 100, 100)
    assert log.leader_epoch_cache.entries == []
    assert append(log, b"z") == 100
    assert [p.name for p in sorted(tmp_path.glob("*.log"))] == ["00000000000000000100.log"]


def test_a_follower_keeps_offsets_and_epochs(tmp_path: Path) -> None:
    leader = open_log(tmp_path / "leader")
    leader.append_as_leader(batch(b"a", b"b"), 3, NOW_MS)
    leader.append_as_leader(batch(b"c"), 4, NOW_MS)
    sent = leader.read(0, 10_000, LOG_END).records.read()
    follower = open_log(tmp_path / "follower")

    info = follower.append_as_follower(sent + sent[:30], NOW_MS)

    assert (info.first_offset, info.last_offset) == (0, 2)
    assert follower.read(0, 10_000, LOG_END).records.read() == sent
    assert follower.leader_epoch_cache.entries == [(3, 0), (4, 2)]


def test_a_follower_rolls_to_the_first_offset_behind_a_gap(tmp_path: Path) -> None:
    follower = open_log(tmp_path)
    follower.append_as_follower(batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0))
    far = 2**31 + 10

    follower.append_as_follower(batch(b"b", b"c", base_offset=far))

    assert follower.segments.base_offsets == [0, far]
    assert (tmp_path / f"{far:020}.snapshot").exists()
    assert read_values(follower.read(1, 10_000, LOG_END).records.read()) == [b"b", b"c"]


def test_an_empty_follower_takes_a_batch_that_began_before_its_start(tmp_path: Path) -> None:
    follower = open_log(tmp_path)
    follower.truncate_fully_and_start_at(11)

    follower.append_as_follower(batch(b"a", b"b", base_offset=10, partition_leader_epoch=3))

    assert (follower.log_start_offset, follower.log_end_offset) == (10, 12)
    assert follower.segments.base_offsets == [10]
    assert follower.leader_epoch_cache.entries == [(3, 10)]


@pytest.mark.parametrize("count", [1, 2], ids=["a batch that ends before", "a log with records"])
def test_batches_that_begin_earlier_are_refused_elsewhere(tmp_path: Path, count: int) -> None:
    follower = open_log(tmp_path)
    follower.truncate_fully_and_start_at(11)
    if count == 2:
        follower.append_as_follower(batch(b"x", base_offset=11))

    with pytest.raises(KafkaError) as refused:
        follower.append_as_follower(batch(*[b"a"] * count, base_offset=12 - count - (count == 1)))

    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert follower.log_start_offset == 11


def test_a_follower_refuses_offsets_it_has_and_broken_batches(tmp_path: Path) -> None:
    follower = open_log(tmp_path)
    follower.append_as_follower(batch(b"a", b"b"))
    broken = batch(b"c", base_offset=2)
    broken[-1] ^= 1

    with pytest.raises(KafkaError) as again:
        follower.append_as_follower(batch(b"b", base_offset=1))
    with pytest.raises(KafkaError) as corrupt:
        follower.append_as_follower(broken)

    assert again.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert corrupt.value.code == ErrorCode.CORRUPT_MESSAGE
    assert follower.log_end_offset == 2


def test_a_coordinator_may_write_several_batches_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"x")

    both = batch(b"a", b"b") + batch(b"c")
    info = log.append_as_leader(both, 2, NOW_MS, origin=AppendOrigin.COORDINATOR)

    assert (info.first_offset, info.last_offset, log.log_end_offset) == (1, 3, 4)
    assert log.leader_epoch_cache.entries == [(0, 0), (2, 1)]
    assert read_values(log.read(0, 10_000, LOG_END).records.read()) == [b"x", b"a", b"b", b"c"]


def test_after_a_failed_write_nothing_is_written_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    active = log.segments.active.records

    def fail(data: object) -> int:
        raise StorageError(active.path, "write", 5)

    with monkeypatch.context() as patch:
        patch.setattr(type(active), "append", lambda self, data: fail(data))
        with pytest.raises(KafkaError) as first:
            append(log, b"b")
    with pytest.raises(KafkaError) as second:
        append(log, b"c")

    assert first.value.code == second.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.log_end_offset == 1


def test_a_flush_moves_the_recovery_point(tmp_path: Path) -> None:
    log = filled(tmp_path)

    log.flush(3)
    part = log.offsets.recovery_point
    log.flush()

    assert (part, log.offsets.recovery_point) == (3, 5)
    assert log.flushes.begin() is None


def test_new_settings_hold_from_the_next_append_on(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a" * 100)

    log.update_config(type(log.config)(max_message_bytes=100))

    with pytest.raises(KafkaError) as caught:
        append(log, b"a" * 100)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
