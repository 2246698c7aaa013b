"""Snapshots of very many producers, written in steps while the log goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kbroker.log.log import Log
from kbroker.log.log_state import LogEnvironment
from kbroker.log.producers.producer_expiry import ProducerExpiry
from kbroker.log.producers.producer_snapshot import decode_snapshot
from kbroker.log.producers.producer_state import ProducerStateEntry, ProducerStateManager
from kbroker.log.producers.snapshot_writing import AT_ONCE
from kbroker.model import TopicPartition
from kbroker.record.record_batch import BatchOptions, Record, build
from tests.fakes.counted_steps import steps_of
from tests.fakes.log_maker import open_log

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
    log.is_deleted = True

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
