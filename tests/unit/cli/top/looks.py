"""Looks at a cluster as tests of the screen need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from kbroker.cli.top.look import NOT_ASKED, Connections, Look
from kbroker.client.group_summaries import GroupSummary
from kbroker.console.cluster_sample import ClusterSample, SampledBroker, SampledTopic
from kbroker.console.rates import broker_rates, group_rates, topic_rates
from kbroker.model import TopicPartition


def look(
    rates: Mapping[str, float],
    *,
    lags: Mapping[str, int] | None = None,
    connections: Connections = NOT_ASKED,
    gaps: Sequence[str] = (),
) -> Look:
    """Topics of one partition with these rates in records/s, and groups that lag in the first."""
    first = next(iter(rates))
    before = _sample(0.0, dict.fromkeys(rates, 1_000_000.0), {}, ())
    ends = {name: 1_000_000 + 2 * rate for name, rate in rates.items()}
    committed = {
        name: {TopicPartition(first, 0): int(ends[first]) - lag}
        for name, lag in (lags or {}).items()
    }
    now = _sample(2.0, ends, committed, tuple(gaps))
    return Look(
        sample=now,
        seconds=2.0,
        topics=topic_rates(before, now),
        groups=group_rates([before, now]),
        brokers=broker_rates(before, now),
        connections=connections,
    )


def _sample(
    at_s: float,
    ends: Mapping[str, float],
    committed: Mapping[str, Mapping[TopicPartition, int]],
    gaps: tuple[str, ...],
) -> ClusterSample:
    places = {TopicPartition(name, 0): int(end) for name, end in ends.items()}
    return ClusterSample(
        at_s=at_s,
        cluster_id="c",
        brokers=(
            SampledBroker(
                broker_id=7,
                host="kafka.example",
                port=9092,
                rack=None,
                is_controller=True,
                replicas=len(places),
                silent=None,
            ),
        ),
        topics={
            name: SampledTopic(
                name=name,
                topic_id=UUID(int=1),
                is_internal=name.startswith("__"),
                partitions=1,
                leaderless=0,
                under_replicated=0,
            )
            for name in ends
        },
        leaders=dict.fromkeys(places, 7),
        ends=places,
        sizes=places,
        groups={
            name: GroupSummary(
                name=name, state="Stable", coordinator=7, members=2, committed=offsets
            )
            for name, offsets in committed.items()
        },
        gaps=gaps,
    )
