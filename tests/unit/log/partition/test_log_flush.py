"""What a flush brings to the disk: as little as recovery allows, and nothing less."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kbroker.config.topic_config import TopicConfig
from kbroker.errors import KafkaError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_state import LogEnvironment
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.log_loader import load_log
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.logs.log_maker import (
    NOW_MS,
    PARTITION,
    batch,
    delete_old_segments,
    manager,
    remove_deleted_files,
)

HERE = "/data/t-0"
FIRST = f"{HERE}/00000000000000000000"


def opened(disk: FailingFileSystem, *, recovery_point: int = 0, **settings: object) -> Log:
    disk.make_directory(HERE)
    request = LoadRequest(
        topic_partition=PARTITION,
        directory=HERE,
        config=TopicConfig(**settings),
        now_ms=NOW_MS,
        recovery_point=recovery_point,
        was_clean=not recovery_point,
    )
    return load_log(request, LogEnvironment(file_system=disk))


@pytest.fixture
def disk() -> FailingFileSystem:
    return FailingFileSystem(MemoryFileSystem())


def append(log: Log, count: int = 1, size: int = 10) -> None:
    for _ in range(count):
        log.append_as_leader(batch(b"v" * size), 0, NOW_MS)


def synced(disk: FailingFileSystem, log: Log) -> list[str]:
    disk.log = []
    log.flush()
    return [path for operation, path in disk.log if operation == "fsync"]


def test_the_first_flush_makes_the_names_safe_and_the_next_ones_sync_the_data_alone(
    disk: FailingFileSystem,
) -> None:
    log = opened(disk)
    append(log)

    first = synced(disk, log)
    append(log, 3)

    assert first == [f"{FIRST}.log", f"{HERE}/leader-epoch-checkpoint", HERE, "/data"]
    assert synced(disk, log) == [f"{FIRST}.log"]


def test_nothing_new_needs_no_flush(disk: FailingFileSystem) -> None:
    log = opened(disk)
    append(log)
    log.flush()

    assert synced(disk, log) == []


def test_a_new_epoch_is_synced_once(disk: FailingFileSystem) -> None:
    log = opened(disk)
    append(log)
    log.flush()
    log.append_as_leader(batch(b"v"), 1, NOW_MS)

    assert synced(disk, log) == [f"{FIRST}.log", f"{HERE}/leader-epoch-checkpoint", HERE]
    append(log)


def test_a_closed_segment_is_synced_with_its_indexes_though_its_records_were_before(
    disk: FailingFileSystem,
) -> None:
    log = opened(disk)
    append(log, 2)
    log.flush()
    log.roll(NOW_MS)
    append(log)
    second = f"{HERE}/00000000000000000002"

    paths = synced(disk, log)

    assert paths[:4] == [f"{second}.log", f"{FIRST}.log", f"{FIRST}.index", f"{FIRST}.timeindex"]
    assert paths[-1] == HERE
    append(log)
    assert synced(disk, log) == [f"{second}.log"]


def test_what_was_recovered_is_synced_whole(disk: FailingFileSystem) -> None:
    log = opened(disk, segment_bytes=200)
    append(log, 3, size=100)
    log.close()

    again = opened(disk, recovery_point=1, segment_bytes=200)
    paths = synced(disk, again)

    assert f"{HERE}/00000000000000000001.index" in paths
    assert f"{HERE}/00000000000000000002.log" in paths
    assert f"{FIRST}.log" not in paths


def test_a_flush_of_records_that_were_cut_meanwhile_proves_nothing(disk: FailingFileSystem) -> None:
    log = opened(disk)
    append(log, 3)
    pending = log.flushes.begin()
    assert pending is not None
    pending.sync()
    log.truncate_to(1)
    append(log, 5)

    log.flushes.complete(pending)

    assert log.offsets.recovery_point == 0


def test_a_segment_taken_out_during_its_flush_is_no_failure(disk: FailingFileSystem) -> None:
    log = opened(disk, segment_bytes=200, retention_ms=1)
    append(log, 2, size=100)
    log.update_high_watermark(2)
    pending = log.flushes.begin()
    assert pending is not None
    delete_old_segments(log, NOW_MS + 10)

    with pytest.raises(StorageError) as raised:
        pending.sync()

    assert log.flushes.failed(pending, raised.value)
    assert log.failure is None
    log.flush()
    assert log.offsets.recovery_point == 2


def test_the_start_of_a_log_stays_written_down_until_its_removed_segments_are_surely_gone(
    tmp_path: Path,
) -> None:
    logs = manager(tmp_path, segment_bytes=200, retention_ms=1)
    logs.load("cluster", 1)
    log = logs.get_or_create_log(PARTITION)
    append(log, 2, size=100)
    log.flush()
    log.update_high_watermark(2)
    delete_old_segments(log, NOW_MS + 10)
    written = tmp_path / "log-start-offset-checkpoint"

    logs.checkpoint_log_start_offsets()
    before = written.read_text()
    list(logs.dirty.flush(NOW_MS))
    logs.checkpoint_log_start_offsets()

    assert (before, written.read_text()) == ("0\n1\nt 0 2\n", "0\n0\n")
    logs.shutdown()


def test_a_data_file_that_is_gone_is_a_failure(disk: FailingFileSystem) -> None:
    log = opened(disk)
    append(log)
    pending = log.flushes.begin()
    assert pending is not None
    disk.unlink(f"{FIRST}.log")

    with pytest.raises(StorageError) as raised:
        pending.sync()

    assert not log.flushes.failed(pending, raised.value)
    assert log.failure is not None


def test_a_failed_flush_ends_the_log(disk: FailingFileSystem) -> None:
    log = opened(disk)
    append(log)
    disk.fail("fsync", "*.log")

    with pytest.raises(KafkaError):
        log.flush()

    with pytest.raises(KafkaError):
        append(log)
    assert log.offsets.recovery_point == 0


def test_a_flush_that_went_well_beside_a_failed_one_proves_nothing(disk: FailingFileSystem) -> None:
    log = opened(disk)
    append(log)
    failing, other = log.flushes.begin(), log.flushes.begin()
    assert failing is not None
    assert other is not None

    log.flushes.failed(failing, StorageError(FIRST, "fsync", errno.EIO))
    log.flushes.complete(other)

    assert log.offsets.recovery_point == 0


def test_flush_messages_says_from_where_on_appends_wait(disk: FailingFileSystem) -> None:
    log = opened(disk, flush_messages=3)
    append(log, 2)
    before = log.offsets.flush_due_offset
    log.flush()

    assert (before, log.offsets.flush_due_offset) == (3, 5)


def test_a_stop_syncs_what_it_closes(disk: FailingFileSystem) -> None:
    log = opened(disk)
    log.append_as_leader(batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0), 0, NOW_MS)
    log.flush()
    disk.log = []

    log.close()
    log.flush(and_closed=True)

    paths = [path for operation, path in disk.log if operation == "fsync"]
    assert {f"{FIRST}.log", f"{FIRST}.index", f"{FIRST}.timeindex"} <= set(paths)
    assert f"{HERE}/00000000000000000001.snapshot" in paths


# A full disk


def fill(disk: FailingFileSystem, pattern: str = "*", after_bytes: int | None = None) -> None:
    disk.fail("write", pattern, number=errno.ENOSPC, times=None, after_bytes=after_bytes)


def test_a_torn_append_is_cut_off_and_the_next_one_finds_the_log_as_it_was(
    disk: FailingFileSystem,
) -> None:
    log = opened(disk)
    append(log, 2)
    size = disk.size(f"{FIRST}.log")
    fill(disk, "*.log", after_bytes=70)

    with pytest.raises(KafkaError):
        append(log, size=500)

    assert (disk.size(f"{FIRST}.log"), log.log_end_offset, log.failure) == (size, 2, None)
    disk.heal()
    append(log)
    assert log.log_end_offset == 3


def test_index_entries_wait_in_memory_for_room(disk: FailingFileSystem) -> None:
    log = opened(disk, index_interval_bytes=0)
    append(log)
    fill(disk, "*index")

    append(log, 2_500)

    assert log.log_end_offset == 2_501
    index = log.segments.active.offset_index
    disk.heal()
    append(log)
    log.close()
    assert disk.size(f"{FIRST}.index") == index.entry_count * 8


def test_a_roll_that_does_not_fit_leaves_no_segment_behind(disk: FailingFileSystem) -> None:
    log = opened(disk, segment_bytes=200)
    append(log, size=100)
    disk.fail("open", "*001.*index", number=errno.ENOSPC, times=None)

    with pytest.raises(KafkaError):
        append(log, size=100)

    assert log.failure is None
    assert f"{1:020}.log" not in disk.list(HERE)
    disk.heal()
    append(log, size=100)
    assert log.segments.base_offsets == [0, 1]


def test_retention_needs_no_room(disk: FailingFileSystem) -> None:
    log = opened(disk, segment_bytes=200, retention_ms=1_000, file_delete_delay_ms=0)
    append(log, 4, size=100)
    log.update_high_watermark(4)
    for pattern in ("*.snapshot", "*epoch*", "*4.*"):
        disk.fail("open", pattern, number=errno.ENOSPC, times=None)
    fill(disk)

    assert delete_old_segments(log, NOW_MS + 5_000) == 3
    assert remove_deleted_files(log, NOW_MS + 5_000) == 3

    assert (log.log_start_offset, log.failure) == (3, None)
    assert len([name for name in disk.list(HERE) if name.endswith(".log")]) == 1
    disk.heal()
    append(log)


def test_an_epoch_that_does_not_fit_is_written_with_the_first_append_that_does(
    disk: FailingFileSystem,
) -> None:
    log = opened(disk)
    append(log)
    fill(disk, "*epoch*")

    log.begin_leader_epoch(5)
    with pytest.raises(KafkaError):
        log.append_as_leader(batch(b"v"), 5, NOW_MS)
    disk.heal()
    log.append_as_leader(batch(b"v"), 5, NOW_MS)

    assert log.leader_epoch_cache.latest_epoch == 5
    assert disk.read_bytes(f"{HERE}/leader-epoch-checkpoint") == b"0\n2\n0 0\n5 1\n"
    assert f"{HERE}/leader-epoch-checkpoint.tmp" not in disk.list(HERE)


def test_a_truncation_that_does_not_fit_leaves_its_segment_in_the_log_and_is_done_later(
    disk: FailingFileSystem,
) -> None:
    log = opened(disk)
    for _ in range(3):
        append(log)
        log.roll(NOW_MS)
    disk.fail("rename", f"{HERE}/00000000000000000002.log", number=errno.ENOSPC)

    with pytest.raises(KafkaError):
        log.truncate_to(1)
    kept = log.segments.base_offsets
    log.truncate_to(1)
    append(log)
    log.roll(NOW_MS)

    assert kept == [0, 1, 2]
    assert log.segments.active.base_offset == 2
    assert log.segments.active.size_bytes == 0
    assert log.failure is None
