"""Snapshots of very many producers, written in steps while the log goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kbroker.log.manager.segment_deletion import ProducerExpiry
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_state import LogEnvironment
from kbroker.log.producers.producer_snapshot import decode_snapshot
from kbroker.log.producers.producer_state import ProducerStateEntry, ProducerStateManager
from kbroker.log.producers.snapshot_writing import AT_ONCE
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.record.record_batch import BatchOptions, Record, build
from tests.fakes.logs.log_maker import open_log
from tests.fakes.running.counted_steps import steps_of

NOW_MS = 1_700_000_000_000
PRODUCERS = 3 * AT_ONCE


def append(log: Log, producer_id: int, sequence: int = 0) -> None:
    options = BatchOptions(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    batch = build([Record(0, NOW_MS, None, b"x")], options=options)
    log.append_as_leader(bytearray(batch), 0, NOW_MS)


class Later:
    """Steps that are taken when a test says so."""

    def __init__(self) -> None:
        self.waiting: list[Iterator[None]] = []

    def __call__(self, steps: Iterator[None]) -> None:
        self.waiting.append(steps)

    def run(self) -> int:
        """How many steps there were."""
        return sum(1 for steps in self.waiting for _ in steps)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    later = Later()
    made = LogEnvironment.__init__

    def with_later(self: LogEnvironment, **fields: object) -> None:
        made(self, **{"in_turn": later, **fields})  # type: ignore[arg-type]

    monkeypatch.setattr(LogEnvironment, "__init__", with_later)
    return later


def filled(directory: Path) -> Log:
    log = open_log(directory)
    for producer_id in range(PRODUCERS):
        append(log, producer_id)
    return log


def written(directory: Path) -> dict[int, dict[int, int]]:
    """By offset of the snapshot, the last sequence of each producer."""
    return {
        int(path.stem): {
            entry.producer_id: entry.last_sequence for entry in decode_snapshot(path.read_bytes())
        }
        for path in sorted(directory.glob("*.snapshot"))
    }


def test_a_roll_writes_the_snapshot_of_many_producers_in_steps(
    tmp_path: Path, later: Later
) -> None:
    log = filled(tmp_path)

    steps = steps_of(lambda: log.roll(NOW_MS))

    assert steps < AT_ONCE
    assert written(tmp_path) == {}
    assert later.run() == 4
    assert written(tmp_path) == {PRODUCERS: dict.fromkeys(range(PRODUCERS), 0)}


def test_what_producers_write_meanwhile_is_not_in_the_snapshot(
    tmp_path: Path, later: Later
) -> None:
    log = filled(tmp_path)
    log.roll(NOW_MS)
    (steps,) = later.waiting
    next(steps)
    append(log, 5, sequence=1)
    append(log, PRODUCERS - 1, sequence=1)
    append(log, PRODUCERS)

    later.run()

    assert written(tmp_path) == {PRODUCERS: dict.fromkeys(range(PRODUCERS), 0)}
    found = log.producer_state.producers
    assert (found[5].last_sequence, found[PRODUCERS - 1].last_sequence) == (1, 1)
    log.close()
    assert written(tmp_path)[PRODUCERS + 3] == {
        **dict.fromkeys(range(PRODUCERS + 1), 0),
        5: 1,
        PRODUCERS - 1: 1,
    }


def test_a_log_that_is_closed_meanwhile_has_its_snapshot(tmp_path: Path, later: Later) -> None:
    log = filled(tmp_path)
    log.roll(NOW_MS)

    log.close()
    later.run()

    assert written(tmp_path) == {PRODUCERS: dict.fromkeys(range(PRODUCERS), 0)}


@pytest.mark.parametrize("end_offset", [0, 10, PRODUCERS - 1])
def test_a_log_that_is_cut_meanwhile_has_no_snapshot_beyond_its_end(
    tmp_path: Path, later: Later, end_offset: int
) -> None:
    log = filled(tmp_path)
    log.roll(NOW_MS)
    next(later.waiting[0])

    log.truncate_to(end_offset, NOW_MS)
    later.run()

    assert max(written(tmp_path), default=0) <= end_offset
    append(log, 1_000_000)
    assert 1_000_000 in log.producer_state.producers


def test_a_log_that_is_deleted_meanwhile_writes_no_more(tmp_path: Path, later: Later) -> None:
    log = filled(tmp_path)
    log.roll(NOW_MS)
    (steps,) = later.waiting
    for _ in range(3):
        next(steps)
    log.partition_directory.deleted()

    later.run()

    assert written(tmp_path) == {}


def test_a_segment_that_rolls_again_before_the_end_has_the_newer_snapshot(
    tmp_path: Path, later: Later
) -> None:
    log = filled(tmp_path)
    log.roll(NOW_MS)
    append(log, 5, sequence=1)
    log.roll(NOW_MS)

    later.run()

    assert list(written(tmp_path)) == [PRODUCERS + 1]
    assert written(tmp_path)[PRODUCERS + 1][5] == 1


def caught_up(directory: Path) -> tuple[Log, Log]:
    """A log whose producers wrote before its start, and a copy that has all of its records."""
    log = filled(directory / "log")
    log.roll(NOW_MS)
    append(log, 7, sequence=1)
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(PRODUCERS)
    copy = open_log(directory / "copy")
    copy.truncate_fully_and_start_at(PRODUCERS, NOW_MS)
    follow(copy, log)
    return log, copy


def follow(copy: Log, log: Log) -> None:
    """Let a copy have all records of its log."""
    while copy.log_end_offset < log.log_end_offset:
        found = log.read(copy.log_end_offset, 1 << 20, FetchIsolation.LOG_END)
        copy.append_as_follower(found.records.read(), NOW_MS)


def take_place(copy: Log, log: Log) -> int:
    """The steps of it."""
    return steps_of(lambda: (copy.become_copy_of(log), copy.take_place_of(log)))


def sequences_after_restart(directory: Path) -> dict[int, int]:
    producers = open_log(directory).producer_state.producers
    return {producer_id: entry.last_sequence for producer_id, entry in producers.items()}


ALL_SEQUENCES = {**dict.fromkeys(range(PRODUCERS), 0), 7: 1}


def test_a_copy_writes_the_producers_of_its_log_in_steps_before_it_takes_its_place(
    tmp_path: Path, later: Later
) -> None:
    log, copy = caught_up(tmp_path)

    steps = sum(1 for _ in copy.producers.copy(log.producers, log.log_end_offset))
    append(log, 9, sequence=1)
    follow(copy, log)

    assert steps == 4
    assert take_place(copy, log) < AT_ONCE
    append(copy, 11, sequence=1)
    copy.close()
    assert sequences_after_restart(tmp_path / "copy") == {**ALL_SEQUENCES, 9: 1, 11: 1}


def cut(log: Log, copy: Log) -> None:
    for each in (log, copy):
        each.truncate_to(PRODUCERS, NOW_MS)
    append(log, 7, sequence=1)


def roll(log: Log, copy: Log) -> None:
    append(log, 7, sequence=2)
    follow(copy, log)
    copy.roll(NOW_MS)
    append(log, 7, sequence=3)


@pytest.mark.parametrize("happen", [cut, roll])
@pytest.mark.parametrize("taken", [1, 4])
def test_a_copy_that_changed_meanwhile_writes_all_producers_at_its_end(
    tmp_path: Path, later: Later, happen: Callable[[Log, Log], None], taken: int
) -> None:
    log, copy = caught_up(tmp_path)
    steps = copy.producers.copy(log.producers, log.log_end_offset)
    for _ in range(taken):
        next(steps)

    happen(log, copy)
    follow(copy, log)
    for _ in steps:
        pass
    copy.become_copy_of(log)
    copy.take_place_of(log)
    later.run()

    producers = log.producer_state.producers
    assert sequences_after_restart(tmp_path / "copy") == {
        producer_id: entry.last_sequence for producer_id, entry in producers.items()
    }


def test_what_a_copy_knew_of_producers_replaces_nothing_that_its_log_knows(
    tmp_path: Path, later: Later
) -> None:
    log, copy = caught_up(tmp_path)
    few = {producer_id: ProducerStateEntry(producer_id) for producer_id in range(AT_ONCE + 1)}
    copy.producer_state.producers.update(few)
    copy.roll(NOW_MS)

    copy.become_copy_of(log)
    copy.take_place_of(log)
    later.run()

    assert written(tmp_path / "copy")[PRODUCERS + 1] == ALL_SEQUENCES


def test_a_copy_that_is_given_up_leaves_the_producers_of_its_log_alone(
    tmp_path: Path, later: Later
) -> None:
    log, copy = caught_up(tmp_path)
    log.roll(NOW_MS)
    steps = copy.producers.copy(log.producers, log.log_end_offset)
    next(steps)
    copy.partition_directory.deleted()
    assert list(steps) == []
    assert list(tmp_path.glob("copy/*.snapshot")) == []

    append(log, PRODUCERS - 1, sequence=1)  # while its own snapshot goes on
    later.run()

    assert written(tmp_path / "log")[PRODUCERS + 1] == ALL_SEQUENCES


def test_idle_producers_are_forgotten_in_steps() -> None:
    producers, steps = ProducerStateManager(TopicPartition("t", 0)), Later()
    for producer_id in range(12_000):
        producers.producers[producer_id] = ProducerStateEntry(producer_id)
    log = SimpleNamespace(producer_state=producers)
    upkeep = SimpleNamespace(add_steps=steps)
    expiry = ProducerExpiry(upkeep, lambda: 1000)  # type: ignore[arg-type]

    expiry.look([log], NOW_MS)  # type: ignore[list-item]
    expiry.look([log], NOW_MS)  # type: ignore[list-item]

    assert steps.run() == 2
    assert producers.producers == {}
    expiry.look([log], NOW_MS)  # type: ignore[list-item]
    assert len(steps.waiting) == 2
