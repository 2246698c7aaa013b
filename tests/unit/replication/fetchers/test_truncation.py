"""Where a follower cuts its log: the stories of KIP-101, KIP-279 and KAFKA-7897, as epochs."""

from __future__ import annotations

import pytest

from kbroker.log.disk.checkpoint import EpochEntry
from kbroker.log.partition.leader_epoch_cache import EpochEndOffset, LeaderEpochCache
from kbroker.replication.fetchers.truncation import Truncation, truncation_for

HIGH_WATERMARK = 3


def cut(leader: tuple[int, int], *epochs: tuple[int, int], end: int) -> Truncation:
    """`epochs` are the follower's, with their start offsets."""
    entries = [EpochEntry(epoch, start) for epoch, start in epochs]
    cache = LeaderEpochCache(entries, lambda _: None)
    return truncation_for(EpochEndOffset(*leader), cache, end, HIGH_WATERMARK)


def test_what_both_wrote_in_one_epoch_stays_though_it_is_above_the_high_watermark() -> None:
    assert cut((1, 10), (1, 0), end=10) == Truncation(10, is_complete=True)


def test_a_longer_log_is_cut_where_the_epoch_ended_at_the_leader() -> None:
    assert cut((1, 6), (1, 0), end=10) == Truncation(6, is_complete=True)


def test_a_shorter_log_is_cut_nowhere() -> None:
    assert cut((1, 10), (1, 0), end=6) == Truncation(6, is_complete=True)


def test_a_later_epoch_of_the_follower_goes() -> None:
    assert cut((1, 6), (1, 0), (2, 8), end=10) == Truncation(6, is_complete=True)


def test_an_epoch_that_the_follower_lacks_makes_it_step_down_and_ask_again() -> None:
    """KIP-279: the epochs are 0 and 2 here, 0 and 1 at the leader."""
    assert cut((1, 9), (0, 0), (2, 5), end=10) == Truncation(5, is_complete=False)


def test_a_leader_that_knows_no_such_epoch_leaves_the_high_watermark() -> None:
    assert cut((-1, -1), (4, 0), end=10) == Truncation(HIGH_WATERMARK, is_complete=True)


@pytest.mark.parametrize(("leader_end", "offset"), [(4, 4), (12, 10)])
def test_a_log_without_epochs_is_cut_at_the_leaders_end(leader_end: int, offset: int) -> None:
    assert cut((2, leader_end), end=10) == Truncation(offset, is_complete=True)


def test_an_answer_without_an_epoch_is_taken_as_an_end() -> None:
    assert cut((-1, 7), (1, 0), end=10) == Truncation(7, is_complete=True)
