"""Groups with offsets of very many producers whose transactions are open: what is asked of one
partition costs no more for all the others.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kbroker.coordinator.group.offsets import CommittedOffset, GroupOffsets
from kbroker.coordinator.runtime.timeline import Timeline
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from tests.fakes.running.counted_steps import growth

OPEN = 100
LINEAR = 2.2  # times the steps for twice as much
NOBODY = 1 << 40


@pytest.fixture(autouse=True)
def replication() -> None:
    """No replicas here."""


def value(log_offset: int) -> CommittedOffset:
    return CommittedOffset(offset=5, commit_timestamp_ms=0, log_offset=log_offset)


def with_open(count: int, timeline: Timeline | None = None) -> GroupOffsets:
    """Each partition has a committed offset, and another in a transaction of its own."""
    offsets = GroupOffsets(timeline)
    for number in range(count):
        offsets.replay(TopicPartition("t", number), value(number), None)
        offsets.replay(TopicPartition("t", number), value(number), number)
    return offsets


def stable_reads(count: int) -> Callable[[], object]:
    offsets = with_open(count)
    return lambda: [offsets.fetch(TopicPartition("t", each), True) for each in range(count)]


def expiry(count: int) -> Callable[[], object]:
    offsets = with_open(count)
    return lambda: offsets.expired(10, 1, lambda _: 0)


def endings(count: int) -> Callable[[], object]:
    offsets = with_open(count)
    return lambda: [offsets.end_transaction(each, is_commit=True) for each in range(count)]


def tombstones(count: int) -> Callable[[], object]:
    offsets = with_open(count)
    return lambda: [offsets.replay(TopicPartition("t", each), None, None) for each in range(count)]


def unstored_endings(count: int) -> Callable[[], object]:
    """Whether anything is left, asked after each end that the log has not taken yet."""
    timeline = Timeline()
    offsets = GroupOffsets(timeline)
    for number in range(count):
        offsets.replay(TopicPartition("t", number), value(number), number)

    def end() -> None:
        for number in range(count):
            timeline.begin(number + 1)
            offsets.end_transaction(number, is_commit=False)
            timeline.end()
            assert bool(offsets)
            assert not offsets.are_stored

    return end


@pytest.mark.parametrize(
    "work", [stable_reads, expiry, endings, tombstones, unstored_endings], ids=lambda w: w.__name__
)
def test_twice_as_many_open_transactions_are_twice_the_work(
    work: Callable[[int], Callable[[], object]],
) -> None:
    assert growth(work, OPEN) < LINEAR


def test_one_partition_with_very_many_writers_is_unstable_until_the_last_of_them_ends() -> None:
    offsets, partition = GroupOffsets(), TopicPartition("t", 0)
    for producer_id in range(OPEN):
        offsets.replay(partition, value(producer_id), producer_id)

    found = []
    for producer_id in range(OPEN):
        found.append(offsets.fetch(partition, True).error)
        offsets.end_transaction(producer_id, is_commit=True)

    assert set(found) == {ErrorCode.UNSTABLE_OFFSET_COMMIT}
    assert offsets.fetch(partition, True).offset == 5


def test_nothing_is_remembered_of_transactions_that_were_refused_or_ended_long_ago() -> None:
    timeline = Timeline()
    offsets, partition = GroupOffsets(timeline), TopicPartition("t", 0)
    timeline.begin(1)
    offsets.replay(partition, value(1), 41)
    timeline.end()
    timeline.roll_back(1)
    timeline.begin(2)
    offsets.replay(partition, value(2), 42)
    timeline.begin(3)
    offsets.end_transaction(42, is_commit=False)
    timeline.end()
    assert offsets.pending.has_pending(42)

    timeline.store(3)

    assert not offsets
    assert offsets.are_stored
    assert not offsets.pending.has_pending(41)
    assert not offsets.pending.has_pending(42)
    assert not offsets.pending.producers_of(partition)
