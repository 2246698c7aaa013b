"""Leader epochs of one log: assigned, asked for ends, truncated, and when they are stored."""

from __future__ import annotations

import pytest

from kbroker.log.disk.checkpoint import EpochEntry
from kbroker.log.partition.leader_epoch_cache import EpochEndOffset, LeaderEpochCache


class Stored:
    """Remembers what was written."""

    def __init__(self) -> None:
        self.writes: list[list[EpochEntry]] = []

    def __call__(self, entries: list[EpochEntry]) -> None:
        self.writes.append(list(entries))


def cache(*entries: tuple[int, int]) -> tuple[LeaderEpochCache, Stored]:
    stored = Stored()
    return LeaderEpochCache([EpochEntry(*entry) for entry in entries], stored), stored


def test_an_epoch_is_written_once_however_often_it_is_assigned() -> None:
    epochs, stored = cache()

    epochs.assign(2, 10)
    epochs.assign(2, 11)
    epochs.assign(2, 50)

    assert epochs.entries == [(2, 10)]
    assert stored.writes == [[(2, 10)]]


def test_an_earlier_start_of_the_latest_epoch_replaces_the_later_one() -> None:
    epochs, _ = cache((1, 5), (2, 10))

    epochs.assign(2, 8)

    assert epochs.entries == [(1, 5), (2, 8)]


def test_entries_that_contradict_a_new_one_are_removed() -> None:
    epochs, _ = cache((1, 5), (2, 10), (4, 20))

    epochs.assign(3, 12)

    assert epochs.entries == [(1, 5), (2, 10), (3, 12)]


def test_a_new_epoch_at_the_same_offset_replaces_an_epoch_that_wrote_nothing() -> None:
    epochs, _ = cache((1, 5), (2, 10))

    epochs.assign(3, 10)

    assert epochs.entries == [(1, 5), (3, 10)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 5)),
        (1, (1, 5)),
        (2, (2, 10)),
        (3, (2, 10)),
        (4, (4, 20)),
        (5, (5, 99)),
        (6, (-1, -1)),
    ],
)
def test_end_offset_of_an_epoch(asked: int, answer: tuple[int, int]) -> None:
    epochs, _ = cache((2, 5), (4, 10), (5, 20))

    assert epochs.end_offset_for(asked, 99) == EpochEndOffset(*answer)


def test_end_offset_of_an_epoch_in_an_empty_log_is_unknown() -> None:
    epochs, _ = cache()

    assert epochs.end_offset_for(0, 0) == (-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(4, None), (5, 2), (9, 2), (10, 4), (1000, 4)])
def test_epoch_of_an_offset(offset: int, epoch: int | None) -> None:
    epochs, _ = cache((2, 5), (4, 10))

    assert epochs.epoch_for_offset(offset) == epoch


@pytest.mark.parametrize(
    ("end_offset", "left"),
    [(4, []), (5, []), (6, [(2, 5)]), (10, [(2, 5)]), (11, [(2, 5), (4, 10)])],
)
def test_truncating_the_end_drops_epochs_that_start_there(
    end_offset: int, left: list[tuple[int, int]]
) -> None:
    epochs, _ = cache((2, 5), (4, 10))

    epochs.truncate_from_end(end_offset)

    assert epochs.entries == left
    assert epochs.latest_epoch == (left[-1][0] if left else -1)


@pytest.mark.parametrize(
    ("start_offset", "left"),
    [(3, [(2, 5), (4, 10)]), (5, [(2, 5), (4, 10)]), (7, [(2, 7), (4, 10)]), (12, [(4, 12)])],
)
def test_truncating_the_start_moves_the_epoch_in_force_there(
    start_offset: int, left: list[tuple[int, int]]
) -> None:
    epochs, _ = cache((2, 5), (4, 10))

    epochs.truncate_from_start(start_offset)

    assert epochs.entries == left


def test_truncation_that_changes_nothing_writes_nothing() -> None:
    epochs, stored = cache((2, 5), (4, 10))

    epochs.truncate_from_end(11)
    epochs.truncate_from_start(5)

    assert stored.writes == []
