"""A sync fails, the broker is started again on the same machine, and then the power goes: what the
second broker has shown is on the disk.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import KafkaError
from kbroker.log.directories.failed_sync import NOTE_FILE
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.manager.log_manager import LogManager
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.embedded.tree_directory import TreeDirectory
from kbroker.zk.tree import TreeUnavailableError
from tests.fakes.disks.recording_file_system import RecordingFileSystem
from tests.fakes.logs.log_maker import NOW_MS, PARTITION, FixedClock, batch, read_values
from tests.faults.crash_storage import finish

SETTINGS = TopicConfig(segment_bytes=400, segment_index_bytes=256, index_interval_bytes=0)


def opened(disk: RecordingFileSystem) -> tuple[LogManager, EmbeddedTree]:
    logs = LogManager(
        LogDirectories.lock(disk, ["/d"]), LogConfig, lambda _: SETTINGS, disk, FixedClock()
    )
    files = TreeDirectory(disk, "/d")
    files.on_failure = lambda error: logs.fail_directory("/d", error)
    tree = EmbeddedTree(FixedClock(), files)
    logs.load("cluster", 1)
    return logs, tree


def refused(
    disk: RecordingFileSystem, ending: str, work: Callable[[], object], refusal: str = "fsync"
) -> None:
    """Do it while syncs of such files fail; the pages count as clean afterwards."""

    def before_change(operation: str, path: str) -> None:
        if operation == refusal and path.endswith(ending):
            raise StorageError(path, refusal, errno.EIO)

    disk.before_change = before_change
    with pytest.raises((KafkaError, TreeUnavailableError)):
        work()
    disk.before_change = None


def values(logs: LogManager) -> list[bytes | None]:
    log = logs.get_log(PARTITION)
    assert log is not None
    return [v for s in log.segments for v in read_values(s.records.read(0, s.size_bytes))]


def test_records_of_a_failed_sync_that_a_restart_shows_are_on_the_disk() -> None:
    disk = RecordingFileSystem()
    logs, _ = opened(disk)
    log = logs.get_or_create_log(PARTITION)
    for n in range(4):
        log.append_as_leader(batch(b"%d" % n * 50), 0, NOW_MS)
    log.flush()
    for n in range(4, 6):
        log.append_as_leader(batch(b"%d" % n * 50), 0, NOW_MS)
    refused(disk, ".log", log.flush)
    logs.release()

    again, _ = opened(disk)
    shown = values(again)
    again_log = again.get_or_create_log(PARTITION)
    again_log.append_as_leader(batch(b"new"), 0, NOW_MS)
    again_log.flush()

    assert shown == [b"%d" % n * 50 for n in range(6)]
    for seed in range(20):
        found, _ = opened(disk.image(Random(seed)))
        assert values(found) == [*shown, b"new"]


def test_a_refused_write_is_noted_too_as_the_kernel_may_have_tried_to_write_what_came_before() -> (
    None
):
    disk = RecordingFileSystem()
    logs, _ = opened(disk)
    log = logs.get_or_create_log(PARTITION)

    refused(disk, ".log", lambda: log.append_as_leader(batch(b"a"), 0, NOW_MS), "write")

    assert disk.exists(f"/d/{NOTE_FILE}")


def test_nodes_of_a_tree_whose_sync_failed_do_not_take_later_ones_with_them() -> None:
    disk = RecordingFileSystem()
    _, tree = opened(disk)
    session = tree.session()
    finish(session.create("/a"))
    refused(disk, "tree.journal", lambda: finish(session.create("/b")))
    first = disk.image(Random(0), "killed")
    assert first.exists(f"/d/{NOTE_FILE}")
    disk.root.entries["d"].entries[".lock"].is_locked = False  # type: ignore[index]

    _, again = opened(disk)
    finish(again.session().create("/c"))
    shown = [path for path, _, _ in again.dump()]

    assert {"/a", "/c"} <= set(shown)
    for seed in range(20):
        _, found = opened(disk.image(Random(seed)))
        assert [path for path, _, _ in found.dump()] == shown


def test_a_disk_that_still_refuses_keeps_the_directory_offline_and_the_note() -> None:
    disk = RecordingFileSystem()
    logs, _ = opened(disk)
    log = logs.get_or_create_log(PARTITION)
    log.append_as_leader(batch(b"a"), 0, NOW_MS)
    refused(disk, ".log", log.flush)
    logs.release()

    def before_change(operation: str, path: str) -> None:
        if operation == "fsync" and path.endswith(".log"):
            raise StorageError(path, "fsync", errno.EIO)

    disk.before_change = before_change
    with pytest.raises(LogDirectoryError):
        opened(disk)
    disk.before_change = None

    assert disk.exists(f"/d/{NOTE_FILE}")
    again, _ = opened(disk)
    assert values(again) == [b"a"]
    assert not disk.exists(f"/d/{NOTE_FILE}")


def test_a_sound_start_writes_nothing_again() -> None:
    disk = RecordingFileSystem()
    logs, _ = opened(disk)
    logs.get_or_create_log(PARTITION).append_as_leader(batch(b"a"), 0, NOW_MS)
    logs.release()
    written: list[str] = []
    disk.before_change = lambda operation, path: (
        written.append(path) if operation == "write" else None
    )

    opened(disk)

    assert not [path for path in written if path.endswith(".log")]
