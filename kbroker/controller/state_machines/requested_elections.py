"""Elections on request, by people or by the broker itself (KIP-183, KIP-460): the partitions they
touch.

Pure. A preferred election gives leadership to the first replica of the assignment; an unclean one
gives a partition without a leader any living replica, though records may be lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from kbroker.controller.state_machines.controller_context import ControllerContext
from kbroker.controller.state_machines.events import Event
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_LEADER, TopicPartition


class ElectionType(IntEnum):
    """Numbers as in ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class ElectLeaders(Event):
    """Somebody asks for an election of these partitions.

    The answer has for each partition its new leader, or the KafkaError that says why it has none.
    """

    partitions: frozenset[TopicPartition]
    election_type: ElectionType


class ZkPreferredElection(Event):
    """/admin/preferred_replica_election came or changed."""

    __slots__ = ()


class AutoPreferredReplicaLeaderElection(Event):
    """Time to check whether leaders are balanced."""

    __slots__ = ()


ElectionResults = dict[TopicPartition, "int | KafkaError"]


def sort_out(
    context: ControllerContext, partitions: Iterable[TopicPartition], election_type: ElectionType
) -> tuple[list[TopicPartition], ElectionResults]:
    """The partitions that need an election, and the answers for all others."""
    electable: list[TopicPartition] = []
    answers: ElectionResults = {}
    for partition in sorted(partitions):
        refusal = _refusal(context, partition, election_type)
        if refusal is None:
            electable.append(partition)
        else:
            answers[partition] = refusal
    return electable, answers


def failed_election(partition: TopicPartition, election_type: ElectionType) -> KafkaError:
    """The error if nobody could be elected."""
    if election_type is ElectionType.PREFERRED:
        code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        strategy = "PreferredReplicaPartitionLeaderElectionStrategy"
    else:
        code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        strategy = "OfflinePartitionLeaderElectionStrategy(true)"
    message = f"Failed to elect leader for partition {partition} under strategy {strategy}"
    return KafkaError(code, message)


def _refusal(
    context: ControllerContext, partition: TopicPartition, election_type: ElectionType
) -> KafkaError | None:
    replicas = context.assignment(partition).replicas
    if not replicas:
        message = "The partition does not exist."
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if context.is_queued_for_deletion(partition.topic):
        message = "The topic is being deleted"
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
    known = context.leadership.get(partition)
    if known is None:  # no replica has lived since the topic was created
        return failed_election(partition, election_type)
    leader = known.leader_and_isr.leader
    if election_type is ElectionType.PREFERRED:
        is_needed = leader != replicas[0]
    else:
        is_needed = leader == NO_LEADER or not context.is_live(leader)
    if is_needed:
        return None
    message = "Leader election not needed for topic partition."
    return KafkaError(ErrorCode.ELECTION_NOT_NEEDED, message)
