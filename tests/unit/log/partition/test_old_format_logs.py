"""Logs of old formats: found by time, kept, recovered, cut."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.record.compression import GZIP, NONE
from kbroker.record.default_record import Record
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.legacy_record import any_records, read_any_header
from tests.fakes.logs.log_maker import NOW_MS, delete_old_segments, open_log
from tests.fakes.logs.time_search import first_at, first_of_newest

FORMAT_VERSION = {0: "0.9.0", 1: "0.10.0", 2: "3.0-IV1"}
FORMATS = pytest.mark.parametrize("magic", [0, 1])
CODECS = pytest.mark.parametrize("codec", [NONE, GZIP], ids=["none", "gzip"])


def log_of(path: Path, magic: int, **settings: Any) -> Log:
    return open_log(path, message_format_version=FORMAT_VERSION[magic], **settings)


def append(log: Log, *times: int, codec: int = NONE) -> None:
    records = [
        Record(index, NOW_MS + time, b"k", b"value %d" % index) for index, time in enumerate(times)
    ]
    data = bytearray(build_legacy(records, 1, codec))
    log.append_as_leader(data, 0, NOW_MS, origin=AppendOrigin.OLD_CLIENT)


def offsets(log: Log) -> list[int]:
    found: list[int] = []
    while (offset := found[-1] + 1 if found else log.log_start_offset) < log.log_end_offset:
        data = log.read(offset, 1 << 20, FetchIsolation.LOG_END).records.read()
        position = 0
        while position < len(data):
            found += [record.offset for record in any_records(data, position)]
            position += read_any_header(data, position).size_bytes
    return found


@CODECS
def test_a_record_is_found_by_its_time_within_a_wrapper(tmp_path: Path, codec: int) -> None:
    log = log_of(tmp_path, 1)
    append(log, 0, 10, codec=codec)
    append(log, 30, 20, 40, codec=codec)

    found = [first_at(log, NOW_MS + time) for time in (5, 11, 31, 41)]

    assert [one and (one.timestamp - NOW_MS, one.offset) for one in found] == [
        (10, 1),
        (30, 2),
        (40, 4),
        None,
    ]
    assert all(one is None or one.leader_epoch is None for one in found)


def test_the_newest_record_is_found(tmp_path: Path) -> None:
    log = log_of(tmp_path, 1)
    append(log, 0, 50, codec=GZIP)
    append(log, 30, codec=GZIP)

    found = first_of_newest(log)

    assert found is not None
    assert (found.timestamp, found.offset) == (NOW_MS + 50, 1)


def test_records_without_time_are_found_by_none(tmp_path: Path) -> None:
    log = log_of(tmp_path, 0)
    append(log, 0, 10)

    assert first_at(log, 0) is None


def test_segments_without_time_are_as_old_as_their_files(tmp_path: Path) -> None:
    log = log_of(tmp_path, 0, segment_bytes=200, retention_ms=60_000)
    for _ in range(8):
        append(log, 0, 10)
    log.update_high_watermark(log.log_end_offset)
    files = sorted(tmp_path.glob("*.log"))
    for file in files[:2]:
        os.utime(file, (0, 0))
    for file in files[2:]:
        os.utime(file, (NOW_MS / 1000, NOW_MS / 1000))

    deleted = delete_old_segments(log, NOW_MS + 1)

    assert deleted == 2
    assert offsets(log) == list(range(log.log_start_offset, 16))


@FORMATS
@CODECS
def test_recovery_finds_everything(tmp_path: Path, magic: int, codec: int) -> None:
    log = log_of(tmp_path, magic, segment_bytes=400, index_interval_bytes=50)
    for _ in range(12):
        append(log, 0, 10, 5, codec=codec)
    log.close()
    for file in tmp_path.glob("*index"):
        file.unlink()

    again = log_of(tmp_path, magic, was_clean=False)

    assert (again.log_end_offset, offsets(again)) == (36, list(range(36)))


@FORMATS
def test_recovery_makes_the_same_indexes(tmp_path: Path, magic: int) -> None:
    settings = {"segment_bytes": 400, "index_interval_bytes": 50}
    log = log_of(tmp_path, magic, **settings)
    for _ in range(12):
        append(log, 0, 10, 5, codec=GZIP)
    log.close()
    indexes = {file.name: file.read_bytes() for file in tmp_path.glob("*index")}
    for name in indexes:
        (tmp_path / name).unlink()

    again = log_of(tmp_path, magic, was_clean=False, **settings)

    again.close()
    assert {file.name: file.read_bytes() for file in tmp_path.glob("*index")} == indexes


@FORMATS
@CODECS
@pytest.mark.parametrize("cut", [1, 10, 25])
def test_a_torn_message_is_cut_off(tmp_path: Path, magic: int, codec: int, cut: int) -> None:
    log = log_of(tmp_path, magic)
    append(log, 0, 10, codec=codec)
    append(log, 20, codec=codec)
    log.close()
    (file,) = tmp_path.glob("*.log")
    file.write_bytes(file.read_bytes()[:-cut])

    assert log_of(tmp_path, magic, was_clean=False).log_end_offset == 2


@FORMATS
def test_a_cut_within_a_wrapper_takes_all_of_it(tmp_path: Path, magic: int) -> None:
    log = log_of(tmp_path, magic)
    append(log, 0, 10, codec=GZIP)
    append(log, 20, 30, 40, codec=GZIP)

    log.truncate_to(3)

    assert offsets(log) == [0, 1]


@FORMATS
def test_old_formats_leave_no_leader_epochs_behind(tmp_path: Path, magic: int) -> None:
    log = log_of(tmp_path, magic)
    log.leader_epoch_cache.assign(3, 0)
    append(log, 0, 10)

    assert log.leader_epoch_cache.entries == []
    assert not (tmp_path / "leader-epoch-checkpoint").exists()


def test_the_first_epoch_is_that_of_the_first_new_batch(tmp_path: Path) -> None:
    log = log_of(tmp_path, 0)
    append(log, 0, 10)

    log.update_config(log_of(tmp_path / "other", 2).config)
    append(log, 20)

    assert log.leader_epoch_cache.entries == [(0, 2)]


def test_a_follower_names_a_new_segment_before_the_first_wrapped_record(tmp_path: Path) -> None:
    leader = log_of(tmp_path / "leader", 1, segment_bytes=400)
    follower = log_of(tmp_path / "follower", 1, segment_bytes=400)
    for _ in range(8):
        append(leader, 0, 10, 20, codec=GZIP)

    while follower.log_end_offset < leader.log_end_offset:
        found = leader.read(follower.log_end_offset, 150, FetchIsolation.LOG_END, True)
        follower.append_as_follower(found.records.read(), NOW_MS)

    assert offsets(follower) == list(range(24))
    for offset in range(24):
        data = follower.read(offset, 1 << 20, FetchIsolation.LOG_END).records.read()
        assert next(iter(any_records(data))).offset <= offset
