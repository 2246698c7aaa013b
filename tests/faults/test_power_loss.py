"""Promises that a power loss once broke, each for itself: see crash_images for how they were found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.directories.log_directory import open_log_directory
from kbroker.log.disk.file_system import StorageError
from kbroker.log.manager.log_manager import LogManager
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.embedded.tree_directory import TreeDirectory
from kbroker.zk.tree import CreateOp
from tests.fakes.disks.recording_file_system import RecordingFileSystem
from tests.fakes.logs.log_maker import NOW_MS, PARTITION, FixedClock, batch
from tests.faults.crash_storage import finish

SETTINGS = TopicConfig(segment_bytes=170, file_delete_delay_ms=1, segment_index_bytes=256)


def started(disk: RecordingFileSystem) -> LogManager:
    logs = LogManager(
        LogDirectories.lock(disk, ["/d"]), LogConfig, lambda _: SETTINGS, disk, FixedClock()
    )
    logs.load("cluster", 1)
    return logs


@pytest.fixture
def disk() -> RecordingFileSystem:
    return RecordingFileSystem()


def images(disk: RecordingFileSystem) -> Iterator[RecordingFileSystem]:
    return (disk.image(Random(seed)) for seed in range(60))


def test_a_data_directory_that_was_made_is_there(disk: RecordingFileSystem) -> None:
    open_log_directory(disk, "/new/data")

    assert all(image.is_directory("/new/data") for image in images(disk))


def test_a_node_of_the_tree_is_there(disk: RecordingFileSystem) -> None:
    disk.make_directory("/d")
    disk.sync_directory("/")
    session = EmbeddedTree(FixedClock(), TreeDirectory(disk, "/d")).session()
    finish(session.create("/a"))
    finish(session.multi_all([(CreateOp("/b"),), (CreateOp("/c"),)]))

    for image in images(disk):
        found = EmbeddedTree(FixedClock(), TreeDirectory(image, "/d")).dump()
        assert [path for path, _, _ in found] == ["/", "/a", "/b", "/c"]


def test_a_deleted_partition_stays_deleted(disk: RecordingFileSystem) -> None:
    logs = started(disk)
    log = logs.get_or_create_log(PARTITION)
    log.append_as_leader(batch(b"a"), 0, NOW_MS)
    log.flush()

    logs.delete_log(PARTITION)
    logs.finish_deletions()

    assert not any(image.exists("/d/t-0") for image in images(disk))


def test_checkpoints_of_a_deleted_log_say_nothing_of_a_new_one(disk: RecordingFileSystem) -> None:
    logs = started(disk)
    log = logs.get_or_create_log(PARTITION)
    for _ in range(3):
        log.append_as_leader(batch(b"a"), 0, NOW_MS)
    log.flush()
    log.update_high_watermark(3)
    log.maybe_increment_log_start_offset(2)
    logs.checkpoint_recovery_points()
    logs.checkpoint_log_start_offsets()

    logs.delete_log(PARTITION)
    logs.get_or_create_log(PARTITION).append_as_leader(batch(b"b"), 0, NOW_MS)

    for image in images(disk):
        found = started(image).get_log(PARTITION)
        assert found is None or (found.log_start_offset, found.offsets.recovery_point) == (0, 0)


def test_deleted_records_stay_deleted_though_the_log_was_not_synced(
    disk: RecordingFileSystem,
) -> None:
    logs = started(disk)
    log = logs.get_or_create_log(PARTITION)
    for _ in range(3):
        log.append_as_leader(batch(b"a"), 0, NOW_MS)
    log.update_high_watermark(3)
    log.maybe_increment_log_start_offset(2)

    logs.checkpoint_log_start_offsets()

    for image in images(disk):
        found = started(image).get_log(PARTITION)
        assert found is not None
        assert found.log_start_offset == 2


def test_producers_are_known_after_a_clean_stop(disk: RecordingFileSystem) -> None:
    logs = started(disk)
    log = logs.get_or_create_log(PARTITION)
    data = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    log.append_as_leader(data, 0, NOW_MS)
    logs.shutdown()

    for image in images(disk):
        found = started(image).get_log(PARTITION)
        assert found is not None
        assert list(found.producer_state.producers) == [5]


def test_a_flush_does_not_mind_segments_that_retention_took(disk: RecordingFileSystem) -> None:
    logs = started(disk)
    log = logs.get_or_create_log(PARTITION)
    for _ in range(4):
        log.append_as_leader(batch(b"a" * 60), 0, NOW_MS)
    log.update_high_watermark(4)
    pending = log.flushes.begin()
    assert pending is not None
    logs.write_with(lambda work, done: done(_error_of(work)))
    log.flush()
    log.maybe_increment_log_start_offset(3)

    logs.cleanup(NOW_MS)
    error = _error_of(pending.sync)

    assert error is not None
    assert log.flushes.failed(pending, error)
    assert log.failure is None


def _error_of(work: Callable[[], None]) -> StorageError | None:
    try:
        work()
    except StorageError as error:
        return error
    return None


def test_an_index_that_was_made_anew_is_synced_with_the_next_flush(
    disk: RecordingFileSystem,
) -> None:
    logs = started(disk)
    log = logs.get_or_create_log(PARTITION)
    for _ in range(3):
        log.append_as_leader(batch(b"a" * 60), 0, NOW_MS)
    logs.shutdown()
    index = f"{log.directory}/00000000000000000000.timeindex"
    content = disk.read_bytes(index)
    disk.unlink(index)

    again = started(disk).get_log(PARTITION)
    assert again is not None
    again.flush(and_closed=True)

    assert content
    assert all(image.read_bytes(index) == content for image in images(disk))
