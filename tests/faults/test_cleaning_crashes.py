"""Power goes, or the process dies, between any two steps of a cleaning: the next start finds the
last value of every key, and either the segments from before or the cleaned ones.

`python -m tests.faults.test_cleaning_crashes --rounds N` takes more images.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from random import Random

from kbroker.log.partition.log import Log
from tests.fakes.brokers.cleaning_broker import DATA, CleaningBroker
from tests.fakes.disks.recording_file_system import RecordingFileSystem
from tests.fakes.logs.log_cleaning import stored_batches, stored_records

_TOPIC = {"segment_bytes": 700, "index_interval_bytes": 100, "min_cleanable_dirty_ratio": 0.0}
_SHORT_ROUNDS = 300


def written(random: Random) -> CleaningBroker:
    """A log with a cleaned part, so that segments are merged, and a dirty one."""
    disk = RecordingFileSystem()
    disk.make_directory(DATA)
    disk.sync_directory("/")
    broker = CleaningBroker(disk, _TOPIC)
    log = broker.log()
    write_batches(broker, log, random)
    broker.clean()
    write_batches(broker, log, random)
    return broker


def write_batches(broker: CleaningBroker, log: Log, random: Random) -> None:
    for number in range(16):
        keys = [b"k%d" % random.randrange(8) for _ in range(random.randrange(1, 4))]
        values = [None if random.random() < 0.15 else b"%d" % number * 20 for _ in keys]
        broker.write(log, *zip(keys, values, strict=True))
    broker.roll(log)
    broker.logs.checkpoint_recovery_points()


def last_values(log: Log) -> dict[bytes | None, bytes | None]:
    found = {record.key: record.value for record in stored_records(log)}
    return {key: value for key, value in found.items() if value is not None}


def changes_of_a_cleaning(seed: int) -> int:
    broker = written(Random(seed))
    disk = broker.disk
    assert isinstance(disk, RecordingFileSystem)
    before = disk.sequence
    broker.clean()
    return disk.sequence - before


def crashes_of_a_cleaning(
    broker: CleaningBroker, wanted: Mapping[int, Iterable[Random]]
) -> list[tuple[int, Random, RecordingFileSystem]]:
    """The disk as it may be found after a crash, for each random number generator of the step, the
    number of a change that is not done any more.
    """
    disk = broker.disk
    assert isinstance(disk, RecordingFileSystem)
    step = 0
    images: list[tuple[int, Random, RecordingFileSystem]] = []

    def before_change(_operation: str, _path: str) -> None:
        nonlocal step
        step += 1
        images.extend((step, random, disk.image(random)) for random in wanted.get(step, ()))

    disk.before_change = before_change
    broker.clean()
    disk.before_change = None
    return images


def check_log(log: Log, expected: dict[bytes | None, bytes | None], end_offset: int) -> None:
    assert last_values(log) == expected
    assert log.log_end_offset == end_offset
    last_offset = -1
    for header, _ in stored_batches(log):
        # A source and the segment in its place must never both be there.
        assert header.base_offset > last_offset
        last_offset = header.last_offset


def check_crash(
    image: RecordingFileSystem,
    random: Random,
    expected: dict[bytes | None, bytes | None],
    end_offset: int,
) -> None:
    """AssertionError where the next start does not find what it must."""
    second = CleaningBroker(image, _TOPIC)
    check_log(second.log(), expected, end_offset)
    # The second broker dies as well, after it has cleared up: nothing of that is safe.
    third = CleaningBroker(image.image(random), _TOPIC)
    check_log(third.log(), expected, end_offset)
    third.clean()
    check_log(third.log(), expected, end_offset)
    names = third.disk.list(f"{DATA}/t-0")
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]


def hunt(rounds: int, first_seed: int = 0) -> dict[str, int]:
    """Take `rounds` images at random steps of three cleanings; how many of each kind."""
    modes: dict[str, int] = {}
    for seed in range(first_seed, first_seed + 3):
        steps = changes_of_a_cleaning(seed)
        wanted: dict[int, list[Random]] = {}
        for number in range(seed - first_seed, rounds, 3):
            wanted.setdefault(1 + number * 37 % steps, []).append(Random(f"{seed} {number}"))
        broker = written(Random(seed))
        log = broker.log()
        expected, end_offset = last_values(log), log.log_end_offset
        for _, random, image in reversed(crashes_of_a_cleaning(broker, wanted)):  # the swap first
            modes[image.made_as] = modes.get(image.made_as, 0) + 1
            check_crash(image, random, expected, end_offset)
    return modes


def test_a_crash_before_any_change_of_a_cleaning_loses_no_last_value() -> None:
    modes = hunt(_SHORT_ROUNDS)
    assert len(modes) >= 5
    assert sum(modes.values()) == _SHORT_ROUNDS


def half_synced() -> CleaningBroker:
    """Each key has a record that is on the disk, and a newer one that nobody has synced."""
    disk = RecordingFileSystem()
    disk.make_directory(DATA)
    disk.sync_directory("/")
    broker = CleaningBroker(disk, _TOPIC)
    log = broker.log()
    for value in (b"old", b"new"):
        for number in range(9):
            broker.write(log, (b"k%d" % number, value * 60))
        log.roll(broker.time.now_ms())
        if value == b"old":
            log.flush()
            broker.logs.checkpoint_recovery_points()
    return broker


def test_a_record_that_is_safe_goes_only_for_a_newer_one_that_is_safe_too() -> None:
    broker = half_synced()
    before = broker.disk.sequence
    broker.clean()
    steps = broker.disk.sequence - before
    assert steps > 40

    wanted = {step: [Random(f"{seed} {step}") for seed in range(6)] for step in range(1, steps)}
    images = crashes_of_a_cleaning(half_synced(), wanted)
    assert len(images) == 6 * (steps - 1)
    different = {image.content(): (step, image) for step, _, image in images}
    for step, image in different.values():
        found = last_values(CleaningBroker(image, _TOPIC).log())
        assert set(found) == {b"k%d" % number for number in range(9)}, (step, image.made_as)


def test_a_cleaning_has_many_steps_at_which_it_can_be_cut() -> None:
    assert changes_of_a_cleaning(0) > 60


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2000)
    print(hunt(parser.parse_args().rounds))
