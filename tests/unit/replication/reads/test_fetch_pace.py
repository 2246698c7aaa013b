"""A follower waits for more requests only where producers send several before they hear of the first."""

from __future__ import annotations

import pytest

from kbroker.replication.reads.fetch_pace import HOLD_MS, LARGE_BYTES, FetchPace
from tests.fakes.brokers.fetch_follower import BROKER_ID, FetchFollower


@pytest.fixture
def partition(cluster):
    return cluster.lead("t", 0, isr=(0, BROKER_ID), replicas=(0, BROKER_ID))


@pytest.fixture
def follower(cluster, partition) -> FetchFollower:
    return FetchFollower(cluster, 1).fetch().fetch()


def sent_together(cluster, partition, follower, count: int) -> None:
    """So many requests come while the follower waits, and one answer has them."""
    follower.fetch(wait_ms=500)
    for _ in range(count):
        cluster.append(partition, b"v")
    cluster.time.advance(HOLD_MS)
    follower.finish()


def waits_after(cluster, partition, follower, count: int) -> bool:
    """Whether the follower still waits a turn after so many requests have come."""
    follower.fetch(wait_ms=500)
    for _ in range(count):
        cluster.append(partition, b"v")
    cluster.time.advance(0)
    return follower.is_waiting


def test_where_each_request_waits_for_the_one_before_no_answer_waits(cluster, partition, follower):
    for _ in range(20):
        assert not waits_after(cluster, partition, follower, 1)
        follower.finish()


def test_after_an_answer_with_several_requests_the_next_waits_for_as_many(
    cluster, partition, follower
):
    sent_together(cluster, partition, follower, 3)

    assert waits_after(cluster, partition, follower, 2)
    cluster.append(partition, b"v")
    cluster.time.advance(0)
    assert not follower.is_waiting
    assert follower.finish().told[0][0] == 3


def test_requests_that_came_before_the_fetch_are_counted(cluster, partition, follower):
    sent_together(cluster, partition, follower, 3)
    cluster.append(partition, b"v")
    follower.fetch(wait_ms=500)
    assert follower.is_waiting

    for _ in range(2):
        cluster.append(partition, b"v")
    cluster.time.advance(0)

    assert follower.finish().told[0][0] == 3


def test_the_wait_is_short(cluster, partition, follower):
    sent_together(cluster, partition, follower, 3)

    assert waits_after(cluster, partition, follower, 2)
    cluster.time.advance(HOLD_MS)

    assert follower.finish().told[0][0] == 2


def test_what_a_follower_has_stored_counts_before_its_answer_waits(cluster, partition, follower):
    sent_together(cluster, partition, follower, 3)
    cluster.append(partition, b"v")

    follower.fetch(wait_ms=500)

    assert (follower.is_waiting, partition.high_watermark) == (True, 3)


def test_an_error_does_not_wait_for_more(cluster, partition, follower):
    sent_together(cluster, partition, follower, 3)
    follower.fetch(wait_ms=500)

    cluster.lead("t", leader=2, leader_epoch=1, isr=(0, 2), replicas=(0, BROKER_ID, 2))
    cluster.time.advance(0)

    assert not follower.is_waiting


def test_after_a_wait_in_vain_answers_do_not_wait_for_a_while():
    pace = FetchPace()
    pace.answered(2, None)

    rests = []
    for _ in range(9):
        assert pace.waits(1, 0)
        pace.answered(1, 1)
        pace.answered(2, None)
        answers = 1
        while not pace.waits(1, 0):
            pace.answered(2, None)
            answers += 1
        rests.append(answers)

    assert rests == [1, 2, 4, 8, 16, 32, 64, 64, 64]


def test_a_wait_that_pays_ends_the_rest():
    pace = FetchPace()
    pace.answered(3, None)
    pace.answered(1, 1)
    pace.answered(3, None)
    pace.answered(2, 1)

    assert pace.waits(1, 0)
    assert not pace.waits(2, 0)


def test_it_is_forgotten_that_an_answer_had_many_requests():
    pace = FetchPace()
    pace.answered(4, None)

    for _ in range(3):
        assert pace.waits(1, 0)
        pace.answered(1, None)

    assert not pace.waits(1, 0)


def test_an_answer_that_is_large_already_does_not_wait():
    pace = FetchPace()
    pace.answered(4, None)

    assert pace.waits(1, LARGE_BYTES - 1)
    assert not pace.waits(1, LARGE_BYTES)
