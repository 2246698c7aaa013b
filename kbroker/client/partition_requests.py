"""Asks a controller to elect leaders (KIP-183, KIP-460), and to move partitions to other brokers
(KIP-455).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import ask_controller
from kbroker.client.topic_rows import by_topic, numbers_by_topic, refusal_in, rows_of
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest
from kbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

_TIMEOUT_MS = 20_000  # less than the client waits for an answer
_PREFERRED, _UNCLEAN = 0, 1


def elect_leaders(
    links: ClusterLinks, partitions: Collection[TopicPartition] | None, *, unclean: bool
) -> dict[TopicPartition, KafkaError | None]:
    """Hold elections for these partitions; None: for all that need one.

    Returns, for each, None if it has been held, or why not. Raises KafkaError if the whole
    request is refused, and what `ask_controller` raises.
    """
    wanted = None
    if partitions is not None:
        wanted = [
            ElectLeadersRequest.TopicPartitions(topic=topic, partitions=numbers)
            for topic, numbers in numbers_by_topic(sorted(partitions)).items()
        ]
    request = ElectLeadersRequest(
        election_type=_UNCLEAN if unclean else _PREFERRED,
        topic_partitions=wanted,
        timeout_ms=_TIMEOUT_MS,
    )
    answer = ask_controller(links, request)
    if answer.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(answer.error_code))
    return {
        TopicPartition(topic.topic, row.partition_id): refusal_in(row)
        for topic in answer.replica_election_results
        for row in topic.partition_result
    }


def moves_under_way(
    links: ClusterLinks, controller_id: int | None = None
) -> dict[TopicPartition, ReplicaAssignment]:
    """Return the assignments of partitions that move. Without `controller_id` the controller is
    looked up.

    Raises OSError if the controller does not answer, KafkaError if it refuses, ClientError if
    none is found.
    """
    request = ListPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS)
    answer: ListPartitionReassignmentsResponse = (
        ask_controller(links, request)
        if controller_id is None
        else links.ask(controller_id, request)
    )
    _check(answer)
    return {
        place: ReplicaAssignment(
            replicas=tuple(row.replicas),
            adding_replicas=tuple(row.adding_replicas),
            removing_replicas=tuple(row.removing_replicas),
        )
        for place, row in rows_of(answer.topics)
    }


def move_partitions(
    links: ClusterLinks, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, KafkaError | None]:
    """Begin to move partitions to these brokers, the preferred leader first; None cancels the move
    of a partition.

    Returns, for each, None if that has begun, or why not. Raises KafkaError if the whole
    request is refused, and what `ask_controller` raises.
    """
    rows = {
        place: AlterPartitionReassignmentsRequest.ReassignablePartition(
            partition_index=place.partition, replicas=None if target is None else list(target)
        )
        for place, target in sorted(targets.items())
    }
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=_TIMEOUT_MS,
        topics=[
            AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=wanted)
            for name, wanted in by_topic(rows).items()
        ],
    )
    answer = ask_controller(links, request)
    _check(answer)
    return {place: refusal_in(row) for place, row in rows_of(answer.responses)}


def _check(answer: Any) -> None:
    refusal = refusal_in(answer)
    if refusal is not None:
        raise refusal
