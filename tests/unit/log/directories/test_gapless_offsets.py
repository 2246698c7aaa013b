"""From where on a log has no gaps: what is claimed, what takes it back, and when it is on the disk."""

from __future__ import annotations

from errno import EMFILE
from random import Random

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.directories.gapless_offsets import GaplessOffsets
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.checkpoint import read_offset_checkpoint
from kbroker.log.disk.file_system import StorageError
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from tests.fakes.brokers.cleaning_broker import DATA, CleaningBroker
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.disks.recording_file_system import RecordingFileSystem
from tests.fakes.logs.log_maker import NOW_MS, FixedClock, batch

FILE = f"{DATA}/kbroker-gapless-offset-checkpoint"
PLACE = TopicPartition("t", 0)
SMALL = {"segment_bytes": 300, "min_cleanable_dirty_ratio": 0.0}


def started(disk: RecordingFileSystem) -> LogManager:
    logs = LogManager(
        LogDirectories.lock(disk, [DATA]), LogConfig, lambda _: TopicConfig(), disk, FixedClock()
    )
    logs.load("cluster", 1)
    return logs


def disk_of_a_broker() -> RecordingFileSystem:
    disk = RecordingFileSystem()
    disk.make_directory(DATA)
    disk.sync_directory("/")
    return disk


def noted(disk: RecordingFileSystem) -> dict[TopicPartition, int]:
    """Return what a power loss now would leave in the file."""
    return dict(GaplessOffsets(disk.image(Random(0), "lost"), DATA).read())


def test_a_new_log_has_no_gap_from_its_start_on() -> None:
    disk = disk_of_a_broker()
    started(disk).get_or_create_log(PLACE)

    assert noted(disk) == {PLACE: 0}


def test_one_write_tells_of_all_logs_opened_until_it_begins() -> None:
    disk = disk_of_a_broker()
    logs = started(disk)
    waiting = []
    logs.write_with(lambda work, done: waiting.append((work, done)))
    for partition in range(5):
        logs.get_or_create_log(TopicPartition("t", partition))
    ((work, done),) = waiting
    logs.get_or_create_log(TopicPartition("t", 5))
    work()
    done(None)

    assert len(noted(disk)) == 6
    assert len(waiting) == 1


def test_a_log_found_at_a_clean_start_has_none_from_its_end_on() -> None:
    disk = disk_of_a_broker()
    logs = started(disk)
    log = logs.get_or_create_log(PLACE)
    log.append_as_follower(batch(b"a"))
    log.append_as_follower(batch(b"a", base_offset=7))
    logs.shutdown()
    assert not disk.exists(FILE)

    started(disk)

    assert noted(disk) == {PLACE: 8}


def test_a_log_found_after_a_kill_keeps_what_was_known() -> None:
    disk = disk_of_a_broker()
    started(disk).get_or_create_log(PLACE).append_as_leader(batch(b"a", b"b"), 0, NOW_MS)

    image = disk.image(Random(0), "killed")
    again = started(image)

    assert noted(image) == {PLACE: 0}
    again.release()
    image.write_bytes(FILE, b"spoiled")
    started(image)
    assert noted(image) == {PLACE: 2}


def test_a_leader_that_sends_a_gap_takes_the_word_back_before_the_append() -> None:
    disk = disk_of_a_broker()
    log = started(disk).get_or_create_log(PLACE)
    log.append_as_follower(batch(b"a"))
    assert noted(disk) == {PLACE: 0}
    writes: list[tuple[str, dict[TopicPartition, int]]] = []
    disk.before_change = lambda _, path: writes.append((path, noted(disk)))

    log.append_as_follower(batch(b"b", base_offset=5))

    appends = [known for path, known in writes if path.endswith(".log")]
    assert appends == [{}]


def test_a_gap_that_cannot_be_noted_is_not_appended() -> None:
    disk = disk_of_a_broker()
    log = started(disk).get_or_create_log(PLACE)

    def refuse(_operation: str, path: str) -> None:
        if path.startswith(FILE):
            raise StorageError(path, "write", 5)

    disk.before_change = refuse
    with pytest.raises(KafkaError):
        log.append_as_follower(batch(b"b", base_offset=5))

    assert log.log_end_offset == 0


def test_a_cleaning_takes_the_word_back_before_its_first_swap_and_only_below_its_end() -> None:
    broker = CleaningBroker(disk_of_a_broker(), SMALL)
    disk = broker.disk
    assert isinstance(disk, RecordingFileSystem)
    log = broker.log()
    for _ in range(6):
        broker.write(log, (b"k", b"v" * 100))
    broker.roll(log)
    assert noted(disk) == {PLACE: 0}
    seen: list[dict[TopicPartition, int]] = []

    def before_change(operation: str, path: str) -> None:
        if operation == "rename" and path.endswith((".swap", ".log.cleaned", ".log.deleted")):
            seen.append(noted(disk))

    disk.before_change = before_change
    broker.clean()

    assert seen
    assert all(known == {PLACE: 6} for known in seen)


def test_a_start_that_cannot_note_it_serves_no_log_of_that_directory() -> None:
    places = [TopicPartition("t", number) for number in range(2)]

    def opened(disk: FailingFileSystem) -> LogManager:
        logs = LogManager(
            LogDirectories.lock(disk, ["/a", "/b"]),
            LogConfig,
            lambda _: TopicConfig(),
            disk,
            FixedClock(),
        )
        logs.load("cluster", 1)
        return logs

    disk = FailingFileSystem(MemoryFileSystem())
    before = opened(disk)
    for place in places:
        before.get_or_create_log(place)
    before.shutdown()
    disk.fail("fsync", "/b/kbroker-gapless-offset-checkpoint*")

    logs = opened(disk)

    assert logs.online_directories == ["/a"]
    for place, is_served in zip(places, (True, False), strict=True):
        log = logs.get_log(place)
        assert log is not None
        assert (log.directory.startswith("/a/"), log.failure is None) == (is_served, is_served)
    with pytest.raises(KafkaError) as refused:  # so that nobody leads or follows it
        logs.get_or_create_log(places[1], is_new=False)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_deleted_log_takes_its_word_along() -> None:
    disk = disk_of_a_broker()
    logs = started(disk)
    other = TopicPartition("t", 1)
    for place in (PLACE, other):
        logs.get_or_create_log(place)

    logs.delete_log(PLACE)
    logs.finish_deletions()

    assert noted(disk) == {other: 0}


def test_one_write_takes_back_what_was_said_of_all_logs_deleted_until_it_begins() -> None:
    disk = disk_of_a_broker()
    logs = started(disk)
    places = [TopicPartition("t", partition) for partition in range(5)]
    for place in places:
        logs.get_or_create_log(place)
    waiting = []
    logs.write_with(lambda work, done: waiting.append((work, done)))
    for place in places:
        logs.delete_log(place)
    assert not waiting
    logs.finish_deletions()
    writes = []
    disk.before_change = lambda operation, path: writes.append((operation, path))
    for work, done in waiting:  # each adds what follows it
        work()
        done(None)

    assert noted(disk) == {}
    assert [path for operation, path in writes if operation == "rename"].count(f"{FILE}.tmp") == 1


def test_what_the_cleaner_said_of_a_deleted_log_allows_no_gap_in_the_next_one() -> None:
    disk = disk_of_a_broker()
    logs = started(disk)
    other = TopicPartition("t", 1)
    for place in (PLACE, other):
        logs.get_or_create_log(place)
    file = "cleaner-offset-checkpoint"
    logs.directories()[0].write_offsets(file, {PLACE: 17, other: 3})

    logs.delete_log(PLACE)
    logs.finish_deletions()

    lost = disk.image(Random(0), "lost")
    assert read_offset_checkpoint(lost, f"{DATA}/{file}") == {other: 3}
    logs.directories()[0].write_offsets(file, {PLACE: 17, other: 3})  # as a crash may leave it
    started(killed := disk.image(Random(0), "killed"))
    assert read_offset_checkpoint(killed, f"{DATA}/{file}") == {other: 3}


def test_a_log_that_could_not_be_made_leaves_no_word() -> None:
    disk = disk_of_a_broker()
    logs = started(disk)

    def refuse(_operation: str, path: str) -> None:
        if path.endswith(".timeindex"):
            raise StorageError(path, "open", EMFILE)

    disk.before_change = refuse
    with pytest.raises(KafkaError):
        logs.get_or_create_log(PLACE)

    assert not disk.exists(f"{DATA}/t-0")
    disk.before_change = None
    logs.get_or_create_log(TopicPartition("t", 1))  # the next write tells it
    assert noted(disk) == {TopicPartition("t", 1): 0}


def test_a_partition_moved_in_by_hand_after_a_deletion_and_a_kill_may_have_gaps() -> None:
    disk = disk_of_a_broker()
    logs = started(disk)
    log = logs.get_or_create_log(PLACE)
    log.append_as_leader(batch(b"a"), 0, NOW_MS)
    logs.delete_log(PLACE)
    logs.finish_deletions()
    killed = disk.image(Random(0), "killed")
    directory = f"{DATA}/t-0"
    killed.make_directory(directory)
    for base_offset in (0, 10):  # as a cleaner leaves it
        killed.write_bytes(
            f"{directory}/{base_offset:020d}.log", bytes(batch(b"v", base_offset=base_offset))
        )

    found = started(killed).get_log(PLACE)

    assert found is not None
    assert found.segments.base_offsets == [0, 10]
