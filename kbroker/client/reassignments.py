"""Moves of partitions from brokers to others (KIP-455): which are under way, and new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import ask_controller
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from kbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

_TIMEOUT_MS = 20_000  # less than the client waits for an answer


def moves_under_way(
    links: ClusterLinks, controller_id: int | None = None
) -> dict[TopicPartition, ReplicaAssignment]:
    """The assignments of the partitions that move; without `controller_id` the controller is looked
    for.

    Raises OSError where the controller does not answer, KafkaError where it refuses, ClientError
    if none is found.
    """
    request = ListPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS)
    answer: ListPartitionReassignmentsResponse = (
        ask_controller(links, request)
        if controller_id is None
        else links.ask(controller_id, request)
    )
    _check(answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, row.partition_index): ReplicaAssignment(
            replicas=tuple(row.replicas),
            adding_replicas=tuple(row.adding_replicas),
            removing_replicas=tuple(row.removing_replicas),
        )
        for topic in answer.topics
        for row in topic.partitions
    }


def move_partitions(
    links: ClusterLinks, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, KafkaError | None]:
    """Begin to move partitions to these brokers, the preferred leader first; None calls the move of
    a partition off.

    Returns, for each, None if that has begun, or why not. Raises KafkaError if the whole
    request is refused, and what `ask_controller` raises.
    """
    by_topic: dict[str, list[AlterPartitionReassignmentsRequest.ReassignablePartition]] = {}
    for place, target in sorted(targets.items()):
        wanted = AlterPartitionReassignmentsRequest.ReassignablePartition(
            partition_index=place.partition, replicas=None if target is None else list(target)
        )
        by_topic.setdefault(place.topic, []).append(wanted)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=_TIMEOUT_MS,
        topics=[
            AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=wanted)
            for name, wanted in by_topic.items()
        ],
    )
    answer = ask_controller(links, request)
    _check(answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, row.partition_index): (
            None
            if row.error_code == ErrorCode.NONE
            else KafkaError(ErrorCode(row.error_code), row.error_message)
        )
        for topic in answer.responses
        for row in topic.partitions
    }


def _check(code: int, message: str | None) -> None:
    if code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(code), message)
