"""A log is cut while the disk refuses something: it is whole or cut, and so are its checkpoints."""

from __future__ import annotations

from contextlib import suppress
from errno import EIO, EMFILE, ENOSPC

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import KafkaError
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.checkpoint import EpochEntry
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.logs.log_maker import NOW_MS, FixedClock, batch

PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("u", 0)
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
STARTS = "log-start-offset-checkpoint"


def new_disk() -> FailingFileSystem:
    return FailingFileSystem(MemoryFileSystem())


def started(disk: FailingFileSystem, *directories: str, segment_bytes: int = 2000) -> LogManager:
    topic = TopicConfig(segment_bytes=segment_bytes)
    paths = directories or ("/d",)
    locked = LogDirectories.lock(disk, paths, paths[0])
    logs = LogManager(locked, LogConfig, lambda _: topic, disk, FixedClock())
    logs.load("cluster", 1)
    return logs


def killed_and_started(disk: FailingFileSystem) -> Log:
    for _, node in disk.inner.files():
        node.is_locked = False
    found = started(disk).get_log(PLACE)
    assert found is not None
    return found


def filled(logs: LogManager, place: TopicPartition = PLACE, count: int = 100) -> Log:
    """`count` records, on the disk."""
    log = logs.get_or_create_log(place)
    for _ in range(count):
        log.append_as_leader(batch(b"v"), 0, NOW_MS)
    log.update_high_watermark(count)
    log.flush()
    return log


def noted(disk: FailingFileSystem, file: str) -> int:
    lines = disk.read_bytes(f"/d/{file}").decode().splitlines()[2:]
    return next(int(line.split()[2]) for line in lines if line.startswith("t 0 "))


@pytest.mark.parametrize("file", [RECOVERY_POINTS, STARTS])
@pytest.mark.parametrize("number", [ENOSPC, EMFILE])
def test_the_second_try_of_a_cut_brings_the_checkpoints_down(file: str, number: int) -> None:
    disk = new_disk()
    logs = started(disk)
    log = filled(logs)
    log.maybe_increment_log_start_offset(80)
    logs.checkpoint_recovery_points()
    logs.checkpoint_log_start_offsets()
    assert noted(disk, file) > 50
    disk.fail("open", f"*{file}*", number=number, times=1)

    with pytest.raises(KafkaError):
        log.truncate_to(50)
    log.truncate_to(50)

    assert log.log_end_offset == 50
    assert noted(disk, file) <= 50


def test_a_log_cut_whole_takes_no_record_before_the_file_knows_its_start() -> None:
    disk = new_disk()
    logs = started(disk)
    log = filled(logs)
    log.maybe_increment_log_start_offset(80)
    logs.checkpoint_log_start_offsets()
    # Before the cut it is noted once, after it once more: that finds no room.
    disk.fail("open", f"*{STARTS}*", number=ENOSPC, at=2, times=1)
    with pytest.raises(KafkaError):
        log.truncate_fully_and_start_at(50, NOW_MS)

    with pytest.raises(KafkaError):  # ends the cut first
        log.append_as_leader(batch(b"new"), 1, NOW_MS)
    for _ in range(60):
        log.append_as_leader(batch(b"new"), 1, NOW_MS)
    log.flush()

    found = killed_and_started(disk)
    assert (found.log_start_offset, found.log_end_offset) == (50, 110)


def test_a_checkpoint_that_was_renamed_and_counts_as_not_written_is_brought_down() -> None:
    disk = new_disk()
    logs = started(disk)
    log = filled(logs)
    disk.fail("sync_directory", "/d", number=EMFILE, times=1)
    logs.checkpoint_recovery_points()

    log.truncate_to(50)

    assert noted(disk, RECOVERY_POINTS) <= 50


def test_the_recovery_point_comes_down_to_where_the_log_ends_inside_a_batch() -> None:
    disk = new_disk()
    logs = started(disk)
    log = filled(logs, count=4)
    log.append_as_leader(batch(*[b"v"] * 20), 0, NOW_MS)  # 4 to 23
    log.append_as_leader(batch(b"v"), 0, NOW_MS)
    log.flush()
    logs.checkpoint_recovery_points()

    log.truncate_to(20)

    assert log.log_end_offset == 4
    assert noted(disk, RECOVERY_POINTS) <= 4


def test_nothing_is_appended_to_a_directory_that_failed_when_the_log_was_to_roll() -> None:
    disk = new_disk()
    logs = started(disk, segment_bytes=300)
    logs.write_with(lambda work, done: None)  # what is known of gaps is still on its way
    log = logs.get_or_create_log(PLACE)
    log.append_as_leader(batch(b"v" * 150), 0, NOW_MS)
    disk.fail("fsync", "*gapless*", number=EIO, times=None)

    with pytest.raises(KafkaError):
        log.append_as_leader(batch(b"v" * 150), 0, NOW_MS)

    assert logs.online_directories == []
    assert log.log_end_offset == 1


def test_an_append_that_cannot_be_taken_back_is_cut_off_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = new_disk()
    logs = started(disk)
    log = logs.get_or_create_log(PLACE)  # empty: while it is cut, its start is noted
    disk.fail("open", f"*{STARTS}*", number=ENOSPC, times=1)
    sent = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}

    def fault(*_: object) -> None:
        raise RuntimeError("a fault of the program")

    with monkeypatch.context() as patch:
        patch.setattr(type(log.producer_state), "update", fault)
        with pytest.raises(RuntimeError):
            log.append_as_leader(batch(b"v", **sent), 0, NOW_MS)
    with pytest.raises(KafkaError):
        log.append_as_leader(batch(b"v", **sent), 0, NOW_MS)
    log.append_as_leader(batch(b"v", **sent), 0, NOW_MS)

    assert log.log_end_offset == 1


@pytest.mark.parametrize("start", [0, 60])
@pytest.mark.parametrize(
    ("operation", "pattern"), [("truncate", "*/t-0/*"), ("open", f"*{RECOVERY_POINTS}*")]
)
def test_a_log_that_is_elected_after_a_refused_cut_ends_where_the_cut_does(
    operation: str, pattern: str, start: int
) -> None:
    """Others may get its records as soon as it leads: they would lose them with its first append."""
    disk = new_disk()
    logs = started(disk, segment_bytes=1000)
    log = filled(logs)
    log.maybe_increment_log_start_offset(start)
    logs.checkpoint_recovery_points()
    disk.fail(operation, pattern, number=ENOSPC, times=None)
    for _ in range(2):
        with pytest.raises(KafkaError):
            log.truncate_to(70)

    log.begin_leader_epoch(3)
    told = log.log_end_offset
    fetched = log.read(65, 1 << 20, FetchIsolation.LOG_END, True)
    log.flush()
    disk.heal()
    with pytest.raises(KafkaError):  # ends the cut first
        log.append_as_leader(batch(b"new"), 3, NOW_MS)
    appended = log.append_as_leader(batch(b"new"), 3, NOW_MS)

    assert told == appended.first_offset == 70
    assert log.leader_epoch_cache.entries[-1] == EpochEntry(3, 70)
    assert len(fetched.records.read()) == 5 * len(batch(b"v"))
    assert (log.log_start_offset, log.high_watermark) == (start, 70)


@pytest.mark.parametrize("start", [30, 150])
def test_a_log_that_is_elected_after_a_refused_fresh_start_is_empty_there(start: int) -> None:
    disk = new_disk()
    logs = started(disk, segment_bytes=1000)
    log = filled(logs)
    disk.fail("rename", "*/t-0/*", number=ENOSPC, at=3, times=None)
    for _ in range(2):
        with pytest.raises(KafkaError):
            log.truncate_fully_and_start_at(start, NOW_MS)

    log.begin_leader_epoch(3)
    told = log.log_start_offset, log.log_end_offset
    disk.heal()
    with pytest.raises(KafkaError):
        log.append_as_leader(batch(b"new"), 3, NOW_MS)
    appended = log.append_as_leader(batch(b"new"), 3, NOW_MS)

    assert told == (start, start)
    assert appended.first_offset == log.log_start_offset == start
    assert log.leader_epoch_cache.entries == [EpochEntry(3, start)]


@pytest.mark.parametrize(("count", "end"), [(5, 0), (100, 50)])
def test_retention_waits_for_the_end_of_a_refused_cut(count: int, end: int) -> None:
    """Its segments do not end where the log does."""
    disk = new_disk()
    logs = started(disk, segment_bytes=1000)
    log = filled(logs, count=count)
    logs.checkpoint_recovery_points()
    disk.fail("open", f"*{RECOVERY_POINTS}*", number=ENOSPC, times=None)
    with pytest.raises(KafkaError):
        log.truncate_to(end)

    late_ms = NOW_MS + log.config.retention_ms + 1
    looked = log.expire_segments(late_ms)
    disk.heal()
    log.truncate_to(end)

    assert not looked
    assert (log.log_start_offset, log.log_end_offset) == (0, end)
    assert log.expire_segments(late_ms) == (end > 0)


@pytest.mark.parametrize("operation", ["truncate", "rename", "open", "write"])
@pytest.mark.parametrize("at", range(1, 9))
def test_a_clean_stop_in_the_middle_of_a_cut_leaves_no_hole(operation: str, at: int) -> None:
    disk = new_disk()
    logs = started(disk, segment_bytes=1000)
    log = filled(logs)
    logs.checkpoint_recovery_points()
    disk.fail(operation, "*/t-0/*", number=EMFILE, at=at, times=1)
    with suppress(KafkaError):
        log.truncate_to(50)
    disk.heal()

    logs.shutdown()

    found = killed_and_started(disk)
    ends = [segment.next_offset for segment in found.segments]
    assert found.log_end_offset in (50, 100)
    assert [*found.segments.base_offsets[1:], found.log_end_offset] == ends


def test_a_data_directory_within_another_fails_alone() -> None:
    disk = new_disk()
    logs = started(disk, "/d", "/d/disk2")
    outer, inner = logs.get_or_create_log(PLACE), logs.get_or_create_log(OTHER)
    assert inner.directory == "/d/disk2/u-0"
    disk.fail("write", "/d/disk2/*", times=None)

    with pytest.raises(KafkaError):
        inner.append_as_leader(batch(b"v"), 0, NOW_MS)

    assert logs.online_directories == ["/d"]
    assert outer.failure is None


def test_a_cut_brings_the_checkpoint_of_its_own_directory_down() -> None:
    disk = new_disk()
    logs = started(disk, "/d", "/d/disk2")
    logs.get_or_create_log(PLACE)
    inner = filled(logs, OTHER)
    logs.checkpoint_recovery_points()

    inner.truncate_to(50)

    assert "u 0 99" not in disk.read_bytes(f"/d/disk2/{RECOVERY_POINTS}").decode()


@pytest.mark.parametrize("number", [ENOSPC, EMFILE])
@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize(
    ("operation", "pattern"),
    [("open", "*/t-0/*"), ("open", f"*{STARTS}*"), ("rename", "*/t-0/*"), ("truncate", "*/t-0/*"),
     ("sync_directory", "*/t-0")],
)  # fmt: skip
@pytest.mark.parametrize("start", [30, 100, 150])
def test_a_log_that_found_no_room_for_its_new_beginning_goes_on_when_there_is(
    operation: str, pattern: str, start: int, at: int, number: int
) -> None:
    disk = new_disk()
    logs = started(disk, segment_bytes=1000)
    log = filled(logs)
    log.maybe_increment_log_start_offset(60)
    logs.checkpoint_log_start_offsets()
    disk.fail(operation, pattern, number=number, at=at, times=None)
    for _ in range(2):
        with suppress(KafkaError):
            log.truncate_fully_and_start_at(start, NOW_MS)

    logs.checkpoint_log_start_offsets()
    logs.checkpoint_recovery_points()
    with suppress(KafkaError):
        log.append_as_leader(batch(b"refused, or the first"), 1, NOW_MS)
    assert log.offsets.unfinished_cut or log.segments.active.base_offset <= log.log_end_offset
    disk.heal()
    with suppress(KafkaError):
        log.truncate_fully_and_start_at(start, NOW_MS)
    for _ in range(60):
        log.append_as_leader(batch(b"new"), 1, NOW_MS)
    log.flush()
    logs.shutdown()

    found = killed_and_started(disk)
    assert (found.log_start_offset, found.log_end_offset) == (start, start + 60)


@pytest.mark.parametrize("number", [ENOSPC, EMFILE])
@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_a_log_without_room_for_its_new_beginning_survives_the_end_of_its_broker(
    number: int, is_killed: bool
) -> None:
    disk = new_disk()
    logs = started(disk)
    log, other = filled(logs), filled(logs, OTHER)
    other.maybe_increment_log_start_offset(20)
    disk.fail("open", "*/t-0/*", number=number, times=None)
    with pytest.raises(KafkaError):
        log.truncate_fully_and_start_at(150, NOW_MS)

    if not is_killed:
        logs.shutdown()
    disk.heal()

    found = killed_and_started(disk)
    assert (found.log_start_offset, found.log_end_offset) == (150, 150)
    assert found.append_as_leader(batch(b"new"), 1, NOW_MS).first_offset == 150
