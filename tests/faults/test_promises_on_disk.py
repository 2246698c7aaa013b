"""What a clean stop and an answered request promise is on the disk, whatever went on beside them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from uuid import UUID

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.write_runner import Done, run_now
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.model import TopicPartition
from tests.fakes.disks.recording_file_system import RecordingFileSystem
from tests.fakes.logs.log_maker import NOW_MS, FixedClock, batch, delete_old_segments

DATA = "/data"
PLACE = TopicPartition("t", 0)
TOPIC_ID = UUID(int=7, version=4)
METADATA = f"{DATA}/t-0/partition.metadata"


ROLLING = TopicConfig(segment_bytes=300, retention_bytes=300)


def started(disk: RecordingFileSystem, topic: TopicConfig = ROLLING) -> LogManager:
    logs = LogManager(
        LogDirectories.lock(disk, [DATA]), LogConfig, lambda _: topic, disk, FixedClock()
    )
    logs.load("cluster", 1)
    return logs


def new_disk() -> RecordingFileSystem:
    disk = RecordingFileSystem()
    disk.make_directory(DATA)
    disk.sync_directory("/")
    return disk


def test_a_clean_stop_brings_a_topic_id_to_the_disk_that_was_written_since_the_last_flush() -> None:
    disk = new_disk()
    logs = started(disk)
    log = logs.get_or_create_log(PLACE, TOPIC_ID)
    log.append_as_leader(batch(b"v"), 0, NOW_MS)
    log.roll(NOW_MS)
    log.flush(and_closed=True)
    logs.checkpoint_recovery_points()
    logs.release()  # the process is killed
    disk.write_bytes(METADATA, bytes(43), sync=True)  # what an earlier power loss left of it

    again = started(disk)
    again.get_or_create_log(PLACE, TOPIC_ID)  # the cluster tells the id
    again.shutdown()
    found = started(disk.image(Random(0), "lost")).get_log(PLACE)

    assert found is not None
    assert (found.topic_id, found.log_end_offset) == (TOPIC_ID, 1)


def test_a_clean_stop_brings_a_log_without_records_to_the_disk() -> None:
    disk = new_disk()
    logs = started(disk)
    logs.get_or_create_log(PLACE, TOPIC_ID)
    logs.release()

    started(disk).shutdown()
    found = started(disk.image(Random(0), "lost")).get_log(PLACE)

    assert found is not None
    assert found.topic_id == TOPIC_ID


def test_the_first_record_of_a_log_whose_file_was_lost_is_on_the_disk_once_it_is_flushed() -> None:
    disk = new_disk()
    started(disk).get_or_create_log(PLACE, TOPIC_ID)
    disk.sync_directory(DATA)
    disk = disk.image(Random(0), "lost")  # a directory without files
    log = started(disk).get_log(PLACE)
    assert log is not None
    log.begin_leader_epoch(0)
    log.flush(and_closed=True)  # as from time to time, or before a copy takes its log's place

    log.append_as_leader(batch(b"v"), 0, NOW_MS)
    log.flush()
    found = started(disk.image(Random(0), "lost")).get_log(PLACE)

    assert found is not None
    assert found.log_end_offset == 1


def carry_out(waiting: list[tuple[Callable[[], None], Done]]) -> None:
    while waiting:
        run_now(*waiting.pop(0))


@pytest.mark.parametrize("seed", range(40))
def test_records_below_a_noted_log_start_are_safe_although_retention_takes_segments_meanwhile(
    seed: int,
) -> None:
    disk = new_disk()
    logs = started(disk)
    log = logs.get_or_create_log(PLACE, TOPIC_ID)
    for number in range(12):
        log.append_as_leader(batch(b"v" * 20), 0, NOW_MS)
        if number == 3:
            log.flush()
    log.update_high_watermark(12)
    assert log.segments.base_offsets == [0, 3, 6, 9]
    waiting = []
    logs.write_with(lambda work, done: waiting.append((work, done)))
    refused = []
    logs.checkpoints.write_log_starts({PLACE: 8}, refused.append)
    assert delete_old_segments(log, NOW_MS) == 2
    carry_out(waiting)
    if refused[-1]:  # whoever asked asks again
        logs.checkpoints.write_log_starts({PLACE: 8}, refused.append)
        carry_out(waiting)
    assert not refused[-1]

    found = started(disk.image(Random(seed))).get_log(PLACE)

    assert found is not None
    assert found.log_start_offset >= 8


def log_with_deleted_records(disk: RecordingFileSystem) -> tuple[LogManager, Log]:
    """Twenty records in one segment, all on the disk; those below 4 are deleted for good."""
    logs = started(disk, TopicConfig())
    log = logs.get_or_create_log(PLACE, TOPIC_ID)
    for _ in range(20):
        log.append_as_leader(batch(b"v"), 0, NOW_MS)
    log.flush()
    log.update_high_watermark(20)
    logs.checkpoints.write_log_starts({PLACE: 4}, lambda refused: None)
    log.maybe_increment_log_start_offset(4)
    return logs, log


def start_after_power_loss(disk: RecordingFileSystem, seed: int) -> int:
    found = started(disk.image(Random(seed)), TopicConfig()).get_log(PLACE)
    assert found is not None
    return found.log_start_offset


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("cut", [2, 4, 7])
def test_a_cut_below_a_noted_start_brings_no_deleted_record_back(seed: int, cut: int) -> None:
    disk = new_disk()
    logs, log = log_with_deleted_records(disk)
    logs.checkpoints.write_log_starts({PLACE: 15}, lambda refused: None)
    log.maybe_increment_log_start_offset(15)

    log.truncate_to(cut)  # by an unclean election

    assert start_after_power_loss(disk, seed) == cut


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("written_before_the_cut", [0, 1, 2])
def test_a_cut_below_a_start_on_its_way_to_the_disk_brings_no_deleted_record_back(
    seed: int, written_before_the_cut: int
) -> None:
    disk = new_disk()
    logs, log = log_with_deleted_records(disk)
    waiting: list[tuple[Callable[[], None], Done]] = []
    logs.write_with(lambda work, done: waiting.append((work, done)))
    answers: list[frozenset[TopicPartition]] = []
    logs.checkpoints.write_log_starts({PLACE: 15}, answers.append)
    logs.checkpoint_log_start_offsets()
    for _ in range(written_before_the_cut):
        run_now(*waiting.pop(0))

    log.truncate_to(7)
    starts = [start_after_power_loss(disk, seed)]
    while waiting:
        run_now(*waiting.pop(0))
        starts.append(start_after_power_loss(disk, seed))

    is_refused = answers == [frozenset({PLACE})]
    assert is_refused == (written_before_the_cut == 0)
    assert set(starts) == {4}


@pytest.mark.parametrize("seed", range(10))
def test_a_start_that_was_cut_off_on_its_way_is_refused_though_the_log_has_grown_since(
    seed: int,
) -> None:
    disk = new_disk()
    logs, log = log_with_deleted_records(disk)
    waiting: list[tuple[Callable[[], None], Done]] = []
    logs.write_with(lambda work, done: waiting.append((work, done)))
    answers: list[frozenset[TopicPartition]] = []
    logs.checkpoints.write_log_starts({PLACE: 15}, answers.append)
    log.truncate_to(7)
    for _ in range(13):
        log.append_as_leader(batch(b"new"), 1, NOW_MS)
    log.flush()
    log.update_high_watermark(20)

    carry_out(waiting)

    assert answers == [frozenset({PLACE})]
    assert start_after_power_loss(disk, seed) == 4
    logs.checkpoints.write_log_starts(
        {PLACE: 15}, answers.append
    )  # asked for again, of the log as it is
    carry_out(waiting)
    assert answers[1:] == [frozenset()]
    assert start_after_power_loss(disk, seed) == 15


@pytest.mark.parametrize("seed", range(20))
def test_a_new_log_that_rolls_at_once_has_no_hole_after_a_power_loss(seed: int) -> None:
    disk = new_disk()
    logs = started(disk)
    waiting: list[tuple[Callable[[], None], Done]] = []
    logs.write_with(lambda work, done: waiting.append((work, done)))  # none is carried out
    log = logs.get_or_create_log(PLACE, TOPIC_ID)
    for _ in range(12):
        log.append_as_leader(batch(b"v" * 20), 0, NOW_MS)

    found = started(disk.image(Random(seed))).get_log(PLACE)

    assert len(log.segments) == 4
    if found is not None:
        batches = [header for segment in found.segments for _, header in segment.sound_headers()]
        ends = [found.log_start_offset, *(header.next_offset for header in batches)]
        assert [*(header.base_offset for header in batches), found.log_end_offset] == ends


@pytest.mark.parametrize("moment", range(12))
@pytest.mark.parametrize("seed", range(4))
def test_a_log_that_was_cut_whole_never_starts_before_the_cut(seed: int, moment: int) -> None:
    disk = new_disk()
    logs = started(disk, TopicConfig(segment_bytes=300))
    log = logs.get_or_create_log(PLACE, TOPIC_ID)
    for _ in range(12):
        log.append_as_leader(batch(b"v" * 20), 0, NOW_MS)
    log.flush()
    log.update_high_watermark(12)
    logs.checkpoints.write_log_starts({PLACE: 7}, lambda refused: None)
    log.maybe_increment_log_start_offset(7)
    delete_old_segments(log, NOW_MS)
    assert log.segments.base_offsets == [6, 9]
    images = []
    disk.before_change = lambda *_: images.append(disk.image(Random(seed)))

    log.truncate_to(4)
    is_done = moment == 11
    for _ in range(5):
        log.append_as_leader(batch(b"new"), 1, NOW_MS)
    log.flush()
    images.append(disk.image(Random(seed)))

    found = started(images[-1 if is_done else moment], TopicConfig(segment_bytes=300)).get_log(
        PLACE
    )
    assert found is not None
    assert found.log_start_offset == 4 if is_done else found.log_start_offset in (4, 7)
    assert found.log_end_offset == 9 if is_done else found.log_end_offset >= found.log_start_offset


@pytest.mark.parametrize("seed", range(60))
def test_what_was_cut_below_the_recovery_point_is_not_back_before_a_new_segment(seed: int) -> None:
    disk = new_disk()
    settings = TopicConfig(segment_bytes=1000)
    logs = started(disk, settings)
    log = logs.get_or_create_log(PLACE, TOPIC_ID)
    for _ in range(8):
        log.append_as_leader(batch(b"v" * 20), 0, NOW_MS)
    log.flush()
    logs.checkpoint_recovery_points()

    log.truncate_to(6)
    log.append_as_leader(batch(b"new" * 200), 1, NOW_MS)

    found = started(disk.image(Random(seed), "random"), settings).get_log(PLACE)
    assert log.segments.base_offsets == [0, 6]
    assert found is not None
    batches = [header for segment in found.segments for _, header in segment.sound_headers()]
    ends = [0, *(header.next_offset for header in batches)]
    assert [*(header.base_offset for header in batches), found.log_end_offset] == ends
