"""The partitions of a cluster that lack something (a leader, replicas in sync, as many of them as
`acks=all` needs), and those that move.

Pure. Counts as Kafka's own tools and metrics do: replicas that a move adds are not missed until it
is over, and a topic cannot need more replicas in sync than it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kbroker.client.topic_rows import rows_of
from kbroker.model import NO_LEADER, ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.metadata import MetadataResponse

Described = MetadataResponse.MetadataResponsePartition


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
    places: dict[TopicPartition, Described] = dict(rows_of(topics))
    return PartitionHealth(
        leaderless=frozenset(p for p, found in places.items() if found.leader_id <= NO_LEADER),
        under_replicated=frozenset(
            p
            for p, found in places.items()
            if len(found.isr_nodes) < len(found.replica_nodes) - _added(moves, p)
        ),
        under_min_isr=None
        if minimums is None
        else frozenset(
            p for p, found in places.items() if _is_under_min_isr(found, minimums.get(p.topic, 1))
        ),
        reassigning=None if moves is None else frozenset(moves),
    )


def _added(moves: Mapping[TopicPartition, ReplicaAssignment] | None, place: TopicPartition) -> int:
    move = (moves or {}).get(place)
    return 0 if move is None else len(move.adding_replicas)


def _is_under_min_isr(found: Described, minimum: int) -> bool:
    return len(found.isr_nodes) < min(minimum, len(found.replica_nodes))
