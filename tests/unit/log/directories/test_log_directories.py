"""Data directories that cannot be used, at the start or later: the others are served, nothing in
them is changed, and what they hold is not made anew elsewhere.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.logs.log_maker import NOW_MS, FixedClock, batch, manager

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def started(*directories: Path, broker: int = 1) -> LogManager:
    logs = manager(*directories, required=directories[0])
    logs.load("cluster", broker)
    return logs


def filled(*directories: Path) -> None:
    """One partition with one record in each of two directories, stopped cleanly."""
    logs = started(*directories)
    for partition in (A0, A1):
        logs.get_or_create_log(partition).append_as_leader(batch(b"x"), 0, NOW_MS)
    logs.shutdown()


def spoil_meta(directory: Path, old: str, new: str) -> None:
    meta = directory / "meta.properties"
    meta.write_text(meta.read_text().replace(old, new))


def content(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "another cluster": (lambda d: spoil_meta(d, "=cluster", "=other"), "belongs to cluster other"),
    "another broker": (lambda d: spoil_meta(d, "id=1", "id=9"), "belongs to broker 9"),
    "a newer version": (lambda d: spoil_meta(d, "version=0", "version=7"), "Unknown version 7"),
    "no numbers": (lambda d: spoil_meta(d, "version=0", "version=x"), "Malformed"),
    "no text": (lambda d: (d / "meta.properties").write_bytes(b"\xff\xfe"), "is not text"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_one_that_cannot_be_used_is_left_alone_and_the_other_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    filled(good, bad)
    spoil, reason = BROKEN[name]
    spoil(bad)
    before = content(bad)

    with caplog.at_level(logging.ERROR):
        logs = started(good, bad)

    assert len(logs.all_logs()) == 1
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert reason in line
    assert str(bad) in line
    assert line.endswith("the others are served")
    logs.shutdown()
    assert content(bad) == before


@pytest.mark.parametrize("name", BROKEN)
def test_the_first_directory_has_to_be_sound(tmp_path: Path, name: str) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    filled(bad, good)
    spoil, reason = BROKEN[name]
    spoil(bad)

    with pytest.raises(LogDirectoryError, match=reason):
        started(bad, good)


def test_a_file_in_the_place_of_a_directory_costs_that_directory(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("")

    logs = started(tmp_path / "good", tmp_path / "bad")

    assert logs.online_directories == [str(tmp_path / "good")]
    logs.shutdown()


def test_a_directory_in_use_costs_that_directory(tmp_path: Path) -> None:
    other = started(tmp_path / "used")

    logs = started(tmp_path / "good", tmp_path / "used")

    assert logs.online_directories == [str(tmp_path / "good")]
    other.shutdown()
    logs.shutdown()


def test_with_no_directory_left_there_is_no_start(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("")

    with pytest.raises(LogDirectoryError, match="cannot be used"):
        manager(tmp_path / "bad")


@pytest.mark.parametrize("file", ["/a/.lock", "/a/meta.properties.tmp"])
def test_a_start_on_a_full_disk_says_that_it_is_full(file: str) -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    disk.fail("lock" if file.endswith(".lock") else "write", file, number=errno.ENOSPC)

    with pytest.raises(LogDirectoryError) as refused:
        memory_manager(disk)

    assert str(refused.value).startswith("Data directory /a is full: ")
    assert str(refused.value).endswith("No space left on device: free some space and start again")
    assert refused.value.trouble is Trouble.DISK_FULL


def test_a_partition_that_may_lie_in_an_offline_directory_is_not_made_anew(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    filled(good, bad)
    spoil_meta(bad, "version=0", "version=7")
    logs = started(good, bad)
    lost = A0 if logs.get_log(A0) is None else A1

    with pytest.raises(KafkaError, match=f"directories {bad} are offline") as raised:
        logs.get_or_create_log(lost, is_new=False)

    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.get_or_create_log(TopicPartition("new", 0), is_new=True)
    logs.shutdown()


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_cannot_be_opened_keeps_its_checkpoints(tmp_path: Path, clean: bool) -> None:
    filled(tmp_path)
    recovery = tmp_path / "recovery-point-offset-checkpoint"
    recovery.write_text("0\n2\na 0 1\na 1 1\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\na 1 1\n")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n2\na 0 1\na 1 1\n")
    if not clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    data = tmp_path / "a-1" / "00000000000000000000.log"
    data.unlink()
    data.mkdir()
    logs = started(tmp_path)

    assert logs.get_log(A1) is None
    with pytest.raises(KafkaError, match="could not be opened"):
        logs.get_or_create_log(A1)
    logs.write_high_watermarks({A0: 1})
    logs.shutdown()

    assert "a 1 1" in recovery.read_text()
    assert "a 1 1" in (tmp_path / "log-start-offset-checkpoint").read_text()
    assert "a 1 1" in (tmp_path / "replication-offset-checkpoint").read_text()
    assert (tmp_path / ".kafka_cleanshutdown").exists() is clean


def test_a_partition_in_two_directories_is_served_from_neither(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path / "one", tmp_path / "two")
    names = {d: next((tmp_path / d).glob("a-*")).name for d in ("one", "two")}
    copy = tmp_path / "two" / names["one"]
    copy.mkdir()
    for path in (tmp_path / "one" / names["one"]).iterdir():
        (copy / path.name).write_bytes(path.read_bytes())

    with caplog.at_level(logging.ERROR):
        logs = started(tmp_path / "one", tmp_path / "two")

    assert len(logs.all_logs()) == 1
    assert f"lies in {tmp_path}/one and {tmp_path}/two: remove the older one" in caplog.text
    twice = A0 if logs.get_log(A0) is None else A1
    with pytest.raises(KafkaError, match="lies in"):
        logs.get_or_create_log(twice)
    logs.shutdown()
    assert (tmp_path / "one" / names["one"]).is_dir()
    assert copy.is_dir()


def memory_manager(disk: FailingFileSystem) -> LogManager:
    logs = LogManager(
        LogDirectories.lock(disk, ["/a", "/b"], "/a"),
        LogConfig,
        lambda _: TopicConfig(),
        disk,
        FixedClock(),
    )
    logs.load("cluster", 1)
    return logs


@pytest.mark.parametrize(
    ("number", "online"), [(errno.EIO, ["/a"]), (errno.EACCES, ["/a", "/b"]), (errno.EROFS, ["/a"])]
)
def test_a_disk_that_refuses_at_load_costs_the_directory_and_one_file_its_partition(
    number: int, online: list[str]
) -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    logs = memory_manager(disk)
    for partition in (A0, A1):
        logs.get_or_create_log(partition).append_as_leader(batch(b"x"), 0, NOW_MS)
    bad = next(tp for tp in (A0, A1) if disk.exists(f"/b/{tp.topic}-{tp.partition}"))
    logs.shutdown()
    disk.fail("list", f"/b/a-{bad.partition}", number=number)

    again = memory_manager(disk)

    assert again.online_directories == online
    assert again.get_log(bad) is None
    assert len(again.all_logs()) == 1
    again.shutdown()
    assert disk.exists("/b/.kafka_cleanshutdown") is (number == errno.EACCES)


def test_a_disk_that_fails_at_load_under_the_first_directory_ends_the_start() -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    logs = memory_manager(disk)
    logs.get_or_create_log(A0)
    logs.shutdown()
    disk.fail("list", "/a/a-0")

    with pytest.raises(LogDirectoryError, match="/a cannot be used: list /a/a-0: Input/output err"):
        memory_manager(disk)

    assert not disk.exists("/a/.kafka_cleanshutdown")


@pytest.mark.parametrize("operation", ["list", "open", "remove", "lock"])
def test_the_disk_of_one_directory_may_fail_at_any_step_of_the_start(operation: str) -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    memory_manager(disk).shutdown()
    disk.fail(operation, "/b*", times=None)

    logs = memory_manager(disk)

    assert logs.online_directories == ["/a"]
    logs.shutdown()
    assert disk.exists("/a/.kafka_cleanshutdown")


def test_the_marker_goes_before_anything_else_is_written() -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    memory_manager(disk).shutdown()
    disk.log = []

    memory_manager(disk)

    changes = [
        (operation, path)
        for operation, path in disk.log
        if path.startswith("/b") and operation in ("write", "remove", "rename", "truncate", "fsync")
    ]
    assert changes[:2] == [("remove", "/b/.kafka_cleanshutdown"), ("fsync", "/b")]


def test_a_removed_directory_is_noticed(tmp_path: Path) -> None:
    logs = started(tmp_path / "a", tmp_path / "b")
    offline: list[str] = []
    logs.on_directory_offline(lambda path, _lost, _error: offline.append(path))
    (tmp_path / "b").rename(tmp_path / "gone")

    logs.look_after_directories()
    logs.look_after_directories()

    assert offline == [str(tmp_path / "b")]
    logs.shutdown()


def test_a_full_directory_is_said_once_and_so_is_its_new_space(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = MemoryFileSystem()
    logs = memory_manager(FailingFileSystem(inner))
    log = logs.get_or_create_log(A0)
    log.append_as_leader(batch(b"x"), 0, NOW_MS)
    inner.capacity_bytes = inner.used_bytes + 100

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            with pytest.raises(KafkaError) as raised:
                log.append_as_leader(batch(b"y" * 5_000), 0, NOW_MS)
            logs.look_after_directories()
        small = log.append_as_leader(batch(b"z"), 0, NOW_MS)
        inner.capacity_bytes += 1_000_000
        logs.look_after_directories()
        large = log.append_as_leader(batch(b"y" * 5_000), 0, NOW_MS)

    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (small.first_offset, large.first_offset) == (1, 2)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(":")[0] for line in lines] == [
        "Data directory /a is full",
        "Data directory /a has space again",
    ]
    assert re.search(r"\(5,\d{3} bytes needed, 100 bytes free\)", lines[0])
    logs.shutdown()


def test_what_does_not_fit_at_a_stop_makes_the_stop_unclean() -> None:
    inner = MemoryFileSystem()
    logs = memory_manager(FailingFileSystem(inner))
    logs.get_or_create_log(A0).append_as_leader(batch(b"x"), 0, NOW_MS)
    inner.capacity_bytes = inner.used_bytes

    logs.shutdown()

    inner.capacity_bytes += 1_000_000
    again = memory_manager(FailingFileSystem(inner))
    assert not again.was_clean
    log = again.get_log(A0)
    assert log is not None
    assert log.log_end_offset == 1


def test_out_of_space_from_a_sync_is_a_failure() -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    logs = memory_manager(disk)
    log = logs.get_or_create_log(A0)
    log.append_as_leader(batch(b"x"), 0, NOW_MS)
    disk.fail("fsync", "/a/*", number=errno.ENOSPC)

    with pytest.raises(KafkaError):
        log.flush()

    assert logs.online_directories == ["/b"]
    assert isinstance(log.failure, StorageError)
