"""ListPartitionReassignments: the partitions on the move, through any broker."""

from __future__ import annotations

from uuid import UUID

import pytest

from kbroker.acl.acl import CLUSTER, AclOperation
from kbroker.apis.list_partition_reassignments import handle
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ReplicaAssignment
from kbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.clusters.forwarding_cluster import ForwardingCluster
from tests.fakes.requests.admin_context import AdminClient
from tests.fakes.requests.denying_authorizer import ask, services_without
from tests.fakes.trees.topic_nodes import create_topic

pytestmark = pytest.mark.usefixtures("small_or_large")

Moves = dict[tuple[str, int], tuple[list[int], list[int], list[int]]]
RESTS = ReplicaAssignment(replicas=(0,))
MOVES = ReplicaAssignment(replicas=(1, 0), adding_replicas=(1,), removing_replicas=(0,))
SHOWN = ([1, 0], [1], [0])  # all, coming, going


async def create(client: AdminClient, name: str, *partitions: ReplicaAssignment) -> None:
    assignment = TopicAssignment(
        topic_id=UUID(int=len(name)), partitions=dict(enumerate(partitions))
    )
    await create_topic(client.broker.zk, name, assignment)
    await client.broker.cluster.settle()


async def moves(client: AdminClient, asked: dict[str, list[int]] | None = None) -> Moves:
    kind = ListPartitionReassignmentsRequest
    topics = None
    if asked is not None:
        topics = [
            kind.ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
            for name, numbers in asked.items()
        ]
    response: ListPartitionReassignmentsResponse = await client.ask(handle, kind(topics=topics), 0)
    assert response.error_code == ErrorCode.NONE
    return {
        (topic.name, row.partition_index): (
            row.replicas,
            row.adding_replicas,
            row.removing_replicas,
        )
        for topic in response.topics
        for row in topic.partitions
    }


@pytest.mark.parametrize("brokers", [2])
async def test_all_partitions_that_move_are_listed(client: AdminClient) -> None:
    await create(client, "t", RESTS, MOVES, MOVES)
    await create(client, "other", MOVES)
    assert await moves(client) == {
        ("t", 1): SHOWN,
        ("t", 2): SHOWN,
        ("other", 0): SHOWN,
    }


@pytest.mark.parametrize("brokers", [2])
async def test_of_those_asked_for_only_what_moves_is_listed(client: AdminClient) -> None:
    await create(client, "t", RESTS, MOVES, MOVES)
    assert await moves(client, {"t": [0, 1, 99, -1], "no-such": [0]}) == {("t", 1): SHOWN}
    assert await moves(client, {}) == {}
    assert await moves(client, {"t": []}) == {}


async def test_a_broker_that_is_not_controller_asks_the_one_that_is(
    forwarding_cluster: ForwardingCluster,
) -> None:
    response = await forwarding_cluster.broker(1).ask(ListPartitionReassignmentsRequest(), 0)

    assert (response.error_code, response.topics) == (ErrorCode.NONE, [])
    assert forwarding_cluster.asked == [(1, 0, "EnvelopeRequest")]


@pytest.mark.parametrize("brokers", [2])
async def test_without_a_controller_the_request_is_refused(client: AdminClient) -> None:
    other = AdminClient(client.broker.cluster.brokers[1])
    with pytest.raises(KafkaError) as refused:
        await moves(other)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def test_only_who_may_describe_the_cluster_is_told(client: AdminClient) -> None:
    services = services_without(client.services, (AclOperation.DESCRIBE, CLUSTER))
    response = await ask(services, ListPartitionReassignmentsRequest(), 0)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
