"""Retention of all logs: what is on the disk before what, and who waits for it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.write_runner import InTurn, run_now
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.disks.recording_file_system import RecordingFileSystem
from tests.fakes.logs.log_maker import NOW_MS, PARTITION, FixedClock, batch, read_values

SEGMENTS = 12
SETTINGS = TopicConfig(
    segment_bytes=170, retention_ms=1_000, file_delete_delay_ms=100, segment_index_bytes=256
)
LATER_MS = NOW_MS + 5_000


def started(disk: FileSystem) -> LogManager:
    logs = LogManager(
        LogDirectories.lock(disk, ["/d"]), LogConfig, lambda _: SETTINGS, disk, FixedClock()
    )
    logs.load("cluster", 1)
    return logs


def filled_with_old(logs: LogManager, topic_partition: TopicPartition = PARTITION) -> Log:
    """Segments that are all old."""
    log = logs.get_or_create_log(topic_partition)
    for _ in range(SEGMENTS):
        log.append_as_leader(batch(b"a" * 90, timestamp=NOW_MS), 0, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return log


def filled(logs: LogManager, topic_partition: TopicPartition = PARTITION) -> Log:
    """Old segments, and one that stays."""
    log = filled_with_old(logs, topic_partition)
    log.append_as_leader(batch(b"new" * 30, timestamp=LATER_MS), 0, LATER_MS)
    log.update_high_watermark(log.log_end_offset)
    return log


def test_no_record_is_lost_where_only_some_of_the_old_segments_come_back() -> None:
    disk = RecordingFileSystem()
    logs = started(disk)
    log = filled(logs)
    log.flush(and_closed=True)

    logs.cleanup(LATER_MS)
    kept = log.segments.base_offsets

    assert kept == [SEGMENTS]
    for seed in range(200):
        found = started(disk.image(Random(seed))).get_log(PARTITION)
        assert found is not None
        assert found.log_end_offset == SEGMENTS + 1, seed
        assert found.log_start_offset == SEGMENTS, seed


def test_a_log_that_is_old_as_a_whole_gives_no_offset_again() -> None:
    disk = RecordingFileSystem()
    logs = started(disk)
    log = filled_with_old(logs)
    log.flush(and_closed=True)

    logs.cleanup(LATER_MS)

    assert log.segments.base_offsets == [SEGMENTS]
    for seed in range(200):
        found = started(disk.image(Random(seed))).get_log(PARTITION)
        assert found is not None
        assert found.log_end_offset == SEGMENTS, seed
        assert found.log_start_offset == SEGMENTS, seed


def test_segments_that_came_back_go_with_the_next_look() -> None:
    disk = RecordingFileSystem()
    logs = started(disk)
    filled(logs).flush(and_closed=True)
    logs.cleanup(LATER_MS)
    logs = started(disk.image(Random(1), "lost"))
    log = logs.get_log(PARTITION)
    assert log is not None
    log.update_high_watermark(log.log_end_offset)

    logs.cleanup(LATER_MS)

    assert log.segments.base_offsets == [SEGMENTS]


def test_on_a_full_disk_segments_go_one_by_one_each_on_the_disk_before_the_next() -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    logs = started(disk)
    log = filled(logs)
    log.flush(and_closed=True)
    disk.fail("write", number=errno.ENOSPC, times=None)
    disk.log = []

    logs.cleanup(LATER_MS)

    steps = [
        "sync" if path == "/d/t-0" else path[-len("0.log") :]
        for operation, path in disk.log
        if (operation == "rename" and path.endswith(".log")) or operation == "fsync"
    ]
    assert steps == [s for n in range(SEGMENTS) for s in (f"{n % 10}.log", "sync")]
    assert log.segments.base_offsets == [SEGMENTS]


def test_a_batch_of_segments_costs_no_sync_but_that_of_the_next_flush() -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    logs = started(disk)
    log = filled(logs)
    log.flush(and_closed=True)
    disk.log = []

    logs.cleanup(LATER_MS)
    before = [path for operation, path in disk.log if (operation, path) == ("fsync", "/d/t-0")]
    list(logs.dirty.flush(LATER_MS))

    assert before == []
    assert ("fsync", "/d/t-0") in disk.log
    assert log.log_start_offset == SEGMENTS


def test_files_go_when_their_delay_is_over_and_not_when_retention_looks_again() -> None:
    disk = MemoryFileSystem()
    logs = started(disk)
    filled(logs)
    logs.cleanup(LATER_MS)

    list(logs.remove_due_files(LATER_MS + 99))
    doomed = [name for name in disk.list("/d/t-0") if name.endswith(".log.deleted")]
    list(logs.remove_due_files(LATER_MS + 100))

    assert len(doomed) == SEGMENTS
    assert not [name for name in disk.list("/d/t-0") if name.endswith(".deleted")]


def test_a_sync_before_the_names_are_changed_makes_nobody_forget_the_start() -> None:
    disk = MemoryFileSystem()
    logs = started(disk)
    log = filled(logs)
    waiting: list[Callable[[], None]] = []
    logs.cleanup(NOW_MS)
    logs.write_with(lambda work, done: waiting.append(lambda: run_now(work, done)))
    logs.cleanup(LATER_MS)
    while log.segments[0].base_offset == 0:
        waiting.pop(0)()
    renames, waiting[:] = list(waiting), []

    log.flush(and_closed=True)  # for a producer, on another thread
    logs.checkpoint_log_start_offsets()
    for write in waiting:
        write()

    assert disk.read_bytes("/d/log-start-offset-checkpoint") == b"0\n1\nt 0 12\n"
    for rename in renames:
        rename()


def test_a_reader_finds_the_file_while_its_name_is_being_changed() -> None:
    disk = MemoryFileSystem()
    logs = started(disk)
    log = filled(logs)
    log.files.close_files()
    records = log.read(0, 1 << 20).records
    log.expire_segments(LATER_MS)
    log.files.close_files()
    renaming = log.let_go_of_expired(5, LATER_MS)

    renaming.rename()
    found = records.read()
    renaming.finish()

    assert len(found) == len(records) > 0


def test_a_log_that_begins_anew_at_an_old_offset_keeps_its_new_files() -> None:
    disk = MemoryFileSystem()
    logs = started(disk)
    log = filled(logs)
    log.flush(and_closed=True)
    answer = log.read(0, 1 << 20).records
    first = answer.read()
    log.expire_segments(LATER_MS)
    renaming = log.let_go_of_expired(5, LATER_MS)

    log.truncate_fully_and_start_at(0, LATER_MS)  # a leader with less than this follower
    log.append_as_leader(batch(b"new", timestamp=LATER_MS), 0, LATER_MS)
    log.files.close_files()
    assert answer.read() == first
    renaming.rename()
    renaming.finish()

    assert log.segments.active.size_bytes == disk.size("/d/t-0/00000000000000000000.log")
    assert read_values(log.read(0, 1 << 20, FetchIsolation.LOG_END).records.read()) == [b"new"]
    doomed = [name for name in disk.list("/d/t-0") if name.endswith(".log.deleted")]
    assert len(doomed) == SEGMENTS + 1
    logs.cleanup(LATER_MS)
    logs.cleanup(LATER_MS + 100)
    assert not [name for name in disk.list("/d/t-0") if name.endswith(".deleted")]


@pytest.mark.parametrize("moved_before", [True, False])
def test_a_partition_that_is_deleted_meanwhile_takes_no_directory_offline(
    moved_before: bool,
) -> None:
    disk = MemoryFileSystem()
    logs = started(disk)
    filled(logs).flush(and_closed=True)
    waiting: list[Callable[[], None]] = []
    logs.write_with(lambda work, done: waiting.append(lambda: run_now(work, done)))
    logs.cleanup(LATER_MS)
    steps = 0
    while waiting:
        if (steps == 3) == moved_before and logs.get_log(PARTITION) is not None:
            logs.delete_log(PARTITION)
        waiting.pop(0)()
        steps += 1

    assert logs.online_directories == ["/d"]


def test_a_fault_in_one_log_keeps_no_other_from_its_retention(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logs = started(MemoryFileSystem())
    other = filled(logs, TopicPartition("a", 0))
    log, third = filled(logs), filled(logs, TopicPartition("u", 0))
    monkeypatch.setattr(other, "expire_segments", lambda _: 1 / 0)

    logs.cleanup(LATER_MS)

    assert [each.segments.base_offsets for each in (log, third)] == [[SEGMENTS]] * 2
    assert "ZeroDivisionError" in caplog.text
    monkeypatch.undo()
    logs.cleanup(LATER_MS)
    assert other.segments.base_offsets == [SEGMENTS]


def test_a_step_that_fails_stops_none_behind_it(caplog: pytest.LogCaptureFixture) -> None:
    order: list[str] = []
    turns = InTurn(lambda: run_now)

    def fails() -> None:
        raise ValueError("a fault of the program")

    turns.add(fails)
    turns.add(lambda: order.append("next"))

    assert order == ["next"]
    assert "a fault of the program" in caplog.text


def test_work_in_turn_lets_others_in_between_and_needs_no_deep_stack() -> None:
    order: list[str] = []
    turns = InTurn(lambda: run_now)

    def step(name: str) -> tuple[Callable[[], None], Callable[[StorageError | None], None]]:
        return lambda: order.append(name), lambda _: None

    for number in range(3_000):
        turns.add(lambda number=number: step(str(number)))  # type: ignore[misc]

    assert order == [str(number) for number in range(3_000)]
    turns.add(lambda: step("one that comes later"))
    assert order[3_000:] == ["one that comes later"]
