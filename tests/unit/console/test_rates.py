"""Rates of topics, brokers and groups, from samples that are written here."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest

from kbroker.client.group_summaries import GroupSummary
from kbroker.console.cluster_sample import ClusterSample, SampledBroker, SampledTopic
from kbroker.console.rates import GroupRate, Pace, broker_rates, group_rates, topic_rates
from kbroker.model import TopicPartition

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
ID, OTHER_ID = UUID(int=7), UUID(int=8)


def topic(topic_id: UUID = ID, leaderless: int = 0) -> SampledTopic:
    return SampledTopic(
        name="orders",
        topic_id=topic_id,
        is_internal=False,
        partitions=2,
        leaderless=leaderless,
        under_replicated=0,
    )


def broker(broker_id: int) -> SampledBroker:
    return SampledBroker(
        broker_id=broker_id,
        host="h",
        port=9092,
        rack=None,
        is_controller=broker_id == 1,
        replicas=2,
        silent=None,
    )


def sample(
    at_s: float,
    ends: tuple[int, int] = (0, 0),
    *,
    sizes: tuple[int, int] = (0, 0),
    committed: Mapping[TopicPartition, int] | None = None,
    described: SampledTopic | None = None,
) -> ClusterSample:
    """Two partitions, of which broker 1 leads the first and broker 2 the second."""
    group = GroupSummary(
        name="billing", state="Stable", coordinator=1, members=1, committed=committed
    )
    return ClusterSample(
        at_s=at_s,
        cluster_id="c",
        brokers=(broker(1), broker(2)),
        topics={"orders": described or topic()},
        leaders={FIRST: 1, SECOND: 2},
        ends={FIRST: ends[0], SECOND: ends[1]},
        sizes={FIRST: sizes[0], SECOND: sizes[1]},
        groups={"billing": group},
        gaps=(),
    )


def group_of(*samples: ClusterSample) -> GroupRate:
    (found,) = group_rates(samples)
    return found


def track(*steps: tuple[float, int, int]) -> GroupRate:
    """The group after samples of one partition: time, committed offset, end."""
    return group_of(*(sample(at, (end, 0), committed={FIRST: done}) for at, done, end in steps))


def test_a_topic_grows_by_what_its_partitions_have_grown_in_a_second() -> None:
    before = sample(10.0, (100, 5), sizes=(1_000, 0))
    now = sample(12.0, (120, 15), sizes=(3_000, 500))

    (found,) = topic_rates(before, now)

    assert (found.records_per_s, found.bytes_per_s, found.size_bytes) == (15.0, 1_250.0, 3_500)


def test_brokers_count_what_is_written_to_the_partitions_that_they_lead() -> None:
    first, second = broker_rates(sample(10.0, (100, 5)), sample(12.0, (120, 15)))

    assert (first.leaders, first.records_per_s) == (1, 10.0)
    assert (second.leaders, second.records_per_s) == (1, 5.0)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (None, sample(12.0)),
        (sample(12.0), sample(12.0)),
        (sample(10.0, (100, 0)), sample(12.0, (7, 0))),
        (sample(10.0), sample(12.0, (9, 9), described=topic(OTHER_ID))),
        (sample(10.0), sample(12.0, described=topic(leaderless=1))),
    ],
    ids=["first", "no time", "went back", "made again", "leaderless"],
)
def test_samples_that_do_not_fit_together_give_no_rate(
    before: ClusterSample | None, now: ClusterSample
) -> None:
    assert topic_rates(before, now)[0].records_per_s is None


def test_retention_hides_the_bytes_of_one_look_and_no_records() -> None:
    before, now = sample(10.0, sizes=(9_000, 0)), sample(12.0, (8, 0), sizes=(4_000, 0))

    (found,) = topic_rates(before, now)

    assert (found.records_per_s, found.bytes_per_s, found.size_bytes) == (4.0, None, 4_000)


@pytest.mark.parametrize(
    ("found", "pace", "seconds"),
    [
        (track((0, 50, 50)), Pace.CAUGHT_UP, 0.0),
        (track((0, 0, 50)), Pace.UNKNOWN, None),
        (track((0, 0, 1_000), (10, 1_000, 1_050)), Pace.KEEPING_UP, 0.5),
        (track((0, 0, 9_000), (10, 1_000, 9_500)), Pace.CATCHING_UP, 170.0),
        (track((0, 0, 9_000), (10, 1_000, 10_000)), Pace.FALLING_BEHIND, None),
        (track((0, 0, 9_000), (4, 0, 9_000)), Pace.UNKNOWN, None),
        (track((0, 0, 9_000), (4, 0, 9_000), (11, 0, 9_000)), Pace.STANDING, None),
        (track((0, 5, 5), (9, 5, 5), (11, 5, 6)), Pace.UNKNOWN, None),
    ],
    ids=[
        "at the end",
        "one look",
        "as much as between two commits",
        "shrinking",
        "growing",
        "too short to say that it stands",
        "standing",
        "new records a moment ago",
    ],
)
def test_a_group_catches_up_at_its_present_pace(
    found: GroupRate, pace: Pace, seconds: float | None
) -> None:
    assert (found.pace, found.catch_up_s) == (pace, seconds)


def test_a_group_has_caught_up_when_its_last_partition_has() -> None:
    then = sample(0.0, (900, 900), committed={FIRST: 900, SECOND: 0})
    now = sample(20.0, (900, 900), committed={FIRST: 900, SECOND: 0})

    found = group_of(then, now)

    assert (found.lag, found.pace, found.catch_up_s) == (900, Pace.STANDING, None)
    assert (found.read_per_s, found.written_per_s) == (0.0, 0.0)
    assert found.most_behind == SECOND


def test_a_reset_back_begins_the_watch_again() -> None:
    found = track((0, 500, 900), (10, 100, 900))

    assert (found.lag, found.read_per_s, found.pace) == (800, None, Pace.UNKNOWN)


def test_offsets_of_deleted_topics_are_no_lag() -> None:
    gone = TopicPartition("gone", 0)

    found = group_of(sample(0.0, (9, 0), committed={FIRST: 4, gone: 1}))

    assert found.lag == 5


def test_a_group_without_offsets_has_no_lag() -> None:
    found = group_of(sample(0.0, committed={}), sample(2.0, committed=None))

    assert (found.lag, found.pace, found.most_behind) == (None, Pace.UNKNOWN, None)
