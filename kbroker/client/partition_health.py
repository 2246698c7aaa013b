"""The partitions of a cluster that lack something (a leader, replicas in sync, as many of them as
`acks=all` needs), and those that move.

Pure. Counts as Kafka's own tools and metrics do: replicas that a move adds are not missed until it
is over, and a topic cannot need more replicas in sync than it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kbroker.model import NO_LEADER, ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.metadata import MetadataResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHealth:
    """Partitions by what they lack; `under_min_isr` and `reassigning` are None if not known."""

    leaderless: frozenset[TopicPartition]
    under_replicated: frozenset[TopicPartition]
    under_min_isr: frozenset[TopicPartition] | None
    reassigning: frozenset[TopicPartition] | None


def health_of(
    topics: Iterable[MetadataResponse.MetadataResponseTopic],
    minimums: Mapping[str, int] | None,
    moves: Mapping[TopicPartition, ReplicaAssignment] | None,
) -> PartitionHealth:
    """Sort partitions by what they lack. `minimums`: `min.insync.replicas` by topic; a topic that
    is not among them asks for 1.
    """
    leaderless, under_replicated, under_min_isr = [], [], []
    added = {place: len(move.adding_replicas) for place, move in (moves or {}).items()}
    for topic in topics:
        minimum = (minimums or {}).get(topic.name or "", 1)
        for found in topic.partitions:
            place = TopicPartition(topic.name or "", found.partition_index)
            in_sync, replicas = len(found.isr_nodes), len(found.replica_nodes)
            if found.leader_id <= NO_LEADER:
                leaderless.append(place)
            if in_sync < replicas - added.get(place, 0):
                under_replicated.append(place)
            if in_sync < min(minimum, replicas):
                under_min_isr.append(place)
    return PartitionHealth(
        leaderless=frozenset(leaderless),
        under_replicated=frozenset(under_replicated),
        under_min_isr=None if minimums is None else frozenset(under_min_isr),
        reassigning=None if moves is None else frozenset(moves),
    )
