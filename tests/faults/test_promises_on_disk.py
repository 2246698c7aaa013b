"""What a clean stop and an answered request promise is on the disk, whatever went on beside them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from uuid import UUID

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.log.log_manager import LogManager
from kbroker.log.write_runner import Done, run_now
from kbroker.model import TopicPartition
from tests.fakes.log_maker import NOW_MS, FixedClock, batch, delete_old_segments
from tests.fakes.recording_file_system import RecordingFileSystem

DATA = "/data"
PLACE = TopicPartition("t", 0)
TOPIC_ID = UUID(int=7, version=4)
METADATA = f"{DATA}/t-0/partition.metadata"


def started(disk: RecordingFileSystem) -> LogManager:
    topic = TopicConfig(segment_bytes=300, retention_bytes=300)
    logs = LogManager([DATA], LogConfig(), lambda _: topic, disk, FixedClock())
    logs.open_directories()
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
    logs.write_log_starts({PLACE: 8}, refused.append)
    assert delete_old_segments(log, NOW_MS) == 2
    carry_out(waiting)
    if refused[-1]:  # whoever asked asks again
        logs.write_log_starts({PLACE: 8}, refused.append)
        carry_out(waiting)
    assert not refused[-1]

    found = started(disk.image(Random(seed))).get_log(PLACE)

    assert found is not None
    assert found.log_start_offset >= 8
