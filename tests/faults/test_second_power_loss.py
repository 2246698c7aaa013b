"""Power goes during a recovery, or after the clean stop that follows one: what the recovery took
away does not come back, and indexes it had not finished are made again.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from kbroker.config.topic_config import TopicConfig
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_state import LogEnvironment
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.log_loader import load_log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from tests.fakes.disks.recording_file_system import MODES, RecordingFileSystem
from tests.fakes.logs.log_maker import NOW_MS, PARTITION, batch
from tests.fakes.logs.time_search import first_at

DIRECTORY = "/d/t-0"
SETTINGS: dict[str, Any] = {
    "segment_bytes": 400, "index_interval_bytes": 1, "segment_index_bytes": 256,
}  # fmt: skip
CONFIG = TopicConfig(**SETTINGS)
IMAGES_PER_CHANGE = 20


class PowerLossError(Exception):
    """Ends the work at hand."""


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def opened(disk: RecordingFileSystem, *, was_clean: bool, recovery_point: int) -> Log:
    request = LoadRequest(
        topic_partition=PARTITION,
        directory=DIRECTORY,
        config=CONFIG,
        now_ms=NOW_MS,
        recovery_point=recovery_point,
        was_clean=was_clean,
    )
    return load_log(request, LogEnvironment(file_system=disk))


def synced_disk(batches: int = 9) -> RecordingFileSystem:
    """A log of several segments, all of it on the device."""
    disk = RecordingFileSystem()
    disk.make_directory(DIRECTORY)
    log = opened(disk, was_clean=True, recovery_point=0)
    for number in range(batches):
        records = batch(b"v" * 60, timestamp=NOW_MS + 10 * number)
        log.append_as_leader(memoryview(records), 0, NOW_MS)
    log.close()
    for path, _ in disk.files():
        disk.sync(path)
    for directory in (DIRECTORY, "/d", "/"):
        disk.sync_directory(directory)
    return disk


def batches_of(log: Log) -> int:
    return log.log_end_offset - log.log_start_offset


def test_an_index_that_was_being_rebuilt_never_leads_astray() -> None:
    disk = synced_disk()
    second = opened(disk, was_clean=True, recovery_point=9).segments[1]
    # Each entry that is left is right, and the newest timestamp of the segment is not there.
    entries = second.time_index.entries()[:1]
    disk.write_bytes(second.time_index.path, struct.pack(">qi", *entries[0]))
    disk.write_bytes(second.offset_index.path, b"odd")
    disk.sync(second.time_index.path)
    disk.sync(second.offset_index.path)

    number = 1
    while (images := after_losses(disk, number)) is not None:
        for image in images:
            log = opened(image, was_clean=False, recovery_point=9)
            for offset in range(9):
                found = first_at(log, NOW_MS + 10 * offset)
                assert found is not None
                assert found.offset == offset, (number, image.made_as)
        number += 1
    assert number > 10


def after_losses(disk: RecordingFileSystem, number: int) -> list[RecordingFileSystem] | None:
    """Images of a start that loses power ahead of its change `number`; None where it makes fewer."""
    copy = disk.image(Random(0), "killed")
    changes = 0

    def count(_operation: str, _path: str) -> None:
        nonlocal changes
        changes += 1
        if changes == number:
            raise PowerLossError

    copy.before_change = count
    with suppress(PowerLossError):
        opened(copy, was_clean=False, recovery_point=9)
    copy.before_change = None
    if changes < number:
        return None
    return [copy.image(Random(f"{number}/{n}")) for n in range(IMAGES_PER_CHANGE)]


@pytest.mark.parametrize("mode", sorted(set(MODES)))
def test_what_a_recovery_took_away_stays_away_after_a_clean_stop(mode: str) -> None:
    disk = synced_disk()
    segments = list(opened(disk, was_clean=True, recovery_point=9).segments)
    broken = segments[1].records.path
    data = disk.read_bytes(broken)
    disk.write_bytes(broken, data[:-20])
    disk.sync(broken)
    recovered = opened(disk, was_clean=False, recovery_point=0)
    end_offset = recovered.log_end_offset
    assert 0 < end_offset < segments[2].base_offset
    recovered.close()

    after = opened(disk.image(Random(7), mode), was_clean=True, recovery_point=end_offset)

    assert after.log_end_offset == end_offset
    whole = after.read(0, 1 << 20, FetchIsolation.LOG_END).records.read()
    assert sum(s.size_bytes for s in after.segments) >= len(whole) > 0
    assert len(list(after.segments)) == 2


def test_a_topic_id_that_a_power_loss_emptied_is_taken_anew_after_a_clean_stop_too() -> None:
    disk = synced_disk()
    disk.write_bytes(f"{DIRECTORY}/partition.metadata", b"")
    log = opened(disk, was_clean=True, recovery_point=9)
    assert log.topic_id is None
    assert batches_of(log) == 9
