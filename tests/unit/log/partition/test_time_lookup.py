"""Look-ups by time in one log: what is found, in which batch, and what headers that lie do to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.log.partition.log import Log
from kbroker.log.partition.time_lookup import next_timed_batch
from kbroker.log.segments.fetch_data_info import TimestampAndOffset
from kbroker.record.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kbroker.record.record_batch import (
    BatchOptions,
    Record,
    assign_max_timestamp,
    build,
    read_header,
)
from tests.fakes.logs.log_maker import NOW_MS, open_log
from tests.fakes.logs.time_search import first_at, first_of_newest


def send(log: Log, *times: int, codec: int = NONE, claimed: int | None = None) -> None:
    records = [Record(n, NOW_MS + time, b"k", b"v" * 20) for n, time in enumerate(times)]
    data = bytearray(build(records, options=BatchOptions(compression=codec)))
    if claimed is not None:
        assign_max_timestamp(read_header(data), data, 0, NOW_MS + claimed)
    log.append_as_leader(data, 3, NOW_MS)


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_the_first_record_at_or_after_a_time_is_found(tmp_path: Path, codec: int) -> None:
    log = open_log(tmp_path)
    send(log, 10, 5, 20, codec=codec)
    send(log, 15, 30, codec=codec)

    found = [first_at(log, NOW_MS + time) for time in (0, 11, 20, 21, 31)]

    assert found == [
        TimestampAndOffset(NOW_MS + 10, 0, 3),
        TimestampAndOffset(NOW_MS + 20, 2, 3),
        TimestampAndOffset(NOW_MS + 20, 2, 3),
        TimestampAndOffset(NOW_MS + 30, 4, 3),
        None,
    ]
    assert first_of_newest(log) == TimestampAndOffset(NOW_MS + 30, 4, 3)


def test_a_compressed_batch_that_lies_about_its_times_is_passed_over(tmp_path: Path) -> None:
    log = open_log(tmp_path, walks_records=False)
    send(log, 1, 2, codec=LZ4, claimed=1_000)
    send(log, 500, 600, codec=LZ4)

    assert first_at(log, NOW_MS + 500) == TimestampAndOffset(NOW_MS + 500, 2, 3)


def test_records_before_the_log_start_are_not_found(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    send(log, 1, 2, 3)
    send(log, 4)
    log.update_high_watermark(4)
    log.maybe_increment_log_start_offset(2)

    assert first_at(log, 0) == TimestampAndOffset(NOW_MS + 3, 2, 3)


def test_the_brokers_time_is_that_of_every_record(tmp_path: Path) -> None:
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime")
    send(log, -9, -8, -7, codec=GZIP)

    assert first_at(log, NOW_MS - 5) == TimestampAndOffset(NOW_MS, 0, 3)


@pytest.mark.parametrize(
    ("count", "codec", "takes_long"), [(5, NONE, False), (1_001, NONE, True), (5, GZIP, True)]
)
def test_large_and_compressed_batches_are_for_a_worker_thread(
    tmp_path: Path, count: int, codec: int, takes_long: bool
) -> None:
    log = open_log(tmp_path)
    send(log, *range(count), codec=codec)

    batch = next_timed_batch(log.segments, NOW_MS, 0)

    assert batch is not None
    assert batch.takes_long is takes_long
    assert batch.search() == TimestampAndOffset(NOW_MS, 0, 3)
    assert next_timed_batch(log.segments, NOW_MS, batch.header.next_offset) is None


@pytest.mark.parametrize("is_found", [False, True], ids=["written here", "found at the start"])
@pytest.mark.parametrize("is_rolled", [False, True], ids=["stopped", "rolled"])
def test_a_time_that_no_index_entry_tells_of_is_found_after_a_cut_and_a_restart(
    tmp_path: Path, is_rolled: bool, is_found: bool
) -> None:
    """The index is sparse: the entry with the newest time may be one that the cut takes away."""
    settings = {"index_interval_bytes": 120}
    log = open_log(tmp_path, **settings)
    for time in (10, 11, 12, 20, 30):
        send(log, time)
    assert log.segments.active.time_index.last_entry == (NOW_MS + 30, 4)
    if is_found:
        log.close()
        log = open_log(tmp_path, recovery_point=5, **settings)
    log.truncate_to(4)
    assert log.segments.active.time_index.last_entry < (NOW_MS + 20, 3)
    if is_rolled:
        log.roll(NOW_MS)
    log.close()

    again = open_log(tmp_path, recovery_point=4, **settings)

    found = TimestampAndOffset(NOW_MS + 20, 3, 3)
    assert first_at(again, NOW_MS + 13) == found
    assert first_of_newest(again) == found
    assert first_of_newest(log) == found
