"""A sample of a cluster: where its partitions end, how large they are, and what its groups have
committed, at one moment. Two of them give rates (`rates.py`).

Law: each broker gets a few requests, however many partitions it leads and groups it coordinates,
and after one that it did not answer none: a sample must not wait long for those that are gone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from kbroker.client.cluster_links import LATEST
from kbroker.client.group_summaries import GroupSummary, group_summaries
from kbroker.client.topic_figures import Described, leaders_of, offsets_at, sizes_of
from kbroker.console.consoled_cluster import ConsoledCluster, Work
from kbroker.console.gaps import Gaps, reason_of
from kbroker.console.partition_figures import tell_unsized
from kbroker.errors import KafkaError
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.protocol.messages.metadata import MetadataResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTopic:
    """A topic; `leaderless` and `under_replicated` count partitions."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: int
    leaderless: int
    under_replicated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledBroker:
    """A broker; `silent` says why it gave no answer, None if it did."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_controller: bool
    replicas: int
    silent: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSample:
    """A cluster at `at_s`, in monotonic seconds. End offsets and sizes in bytes are those of the
    leaders; what nobody gives is left out, and `gaps` say why.
    """

    at_s: float
    cluster_id: str | None
    brokers: tuple[SampledBroker, ...]
    topics: Mapping[str, SampledTopic]
    leaders: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    sizes: Mapping[TopicPartition, int]
    groups: Mapping[str, GroupSummary]
    gaps: tuple[str, ...]


async def cluster_sample(cluster: ConsoledCluster) -> ClusterSample:
    """Take a sample of a cluster. Raises ClientError."""
    return await cluster.ask(_sample)


def _sample(work: Work) -> ClusterSample:
    links, gaps = work.links, Gaps()

    def tell(refusal: KafkaError) -> None:
        gaps.tell(f"some figures of groups are not known: {reason_of(refusal)}")

    described = links.describe(None)
    work.make_way()
    broker_ids = [broker.node_id for broker in described.brokers]
    # Before the ends, so that no group seems to be ahead of them.
    groups = group_summaries(links, broker_ids, tell, work.make_way)
    leaders = leaders_of(described.topics)
    at_s = time.monotonic()
    ends = offsets_at(links, _answering(leaders, links.silent), LATEST)
    work.make_way()
    sizes = sizes_of(links, _answering(leaders, links.silent))
    tell_unsized(links, leaders, ends.keys() - sizes.keys(), gaps)
    gaps.tell_silent(links.silent)
    return ClusterSample(
        at_s=at_s,
        cluster_id=described.cluster_id,
        brokers=_brokers(described, links.silent),
        topics={str(topic.name): _topic(topic) for topic in described.topics},
        leaders=leaders,
        ends=ends,
        sizes=sizes,
        groups=groups,
        gaps=gaps.sentences(),
    )


def _answering(
    leaders: Mapping[TopicPartition, int], silent: Mapping[int, Exception]
) -> Mapping[TopicPartition, int]:
    if not silent:
        return leaders
    return {place: leader for place, leader in leaders.items() if leader not in silent}


def _topic(topic: Described) -> SampledTopic:
    rows = topic.partitions
    return SampledTopic(
        name=str(topic.name),
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=len(rows),
        leaderless=sum(row.leader_id <= NO_LEADER for row in rows),
        under_replicated=sum(len(row.isr_nodes) < len(row.replica_nodes) for row in rows),
    )


def _brokers(
    described: MetadataResponse, silent: Mapping[int, Exception]
) -> tuple[SampledBroker, ...]:
    replicas: Counter[int] = Counter()
    for topic in described.topics:
        for row in topic.partitions:
            replicas.update(row.replica_nodes)
    return tuple(
        SampledBroker(
            broker_id=broker.node_id,
            host=broker.host,
            port=broker.port,
            rack=broker.rack,
            is_controller=broker.node_id == described.controller_id,
            replicas=replicas[broker.node_id],
            silent=str(silent[broker.node_id]) if broker.node_id in silent else None,
        )
        for broker in sorted(described.brokers, key=lambda each: each.node_id)
    )
