"""AlterPartitionReassignments: moves begin, turn and are called off, through any broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from kbroker.acl.acl import CLUSTER, AclOperation
from kbroker.apis.alter_partition_reassignments import handle
from kbroker.apis.list_partition_reassignments import handle as handle_list
from kbroker.errors import ErrorCode
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest
from kbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.brokers.following_broker import FollowingCluster
from tests.fakes.clusters.controller_cluster import ControllerCluster, running
from tests.fakes.clusters.forwarding_cluster import ForwardingCluster, afterwards, cut
from tests.fakes.requests.admin_context import AdminClient
from tests.fakes.requests.denying_authorizer import ask, services_without
from tests.fakes.trees.topic_nodes import create_topic

Row = tuple[str, int, int, str | None]
Wishes = list[tuple[str, int, list[int] | None]]
REFUSED = ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.fixture
async def moving() -> AsyncIterator[FollowingCluster]:
    """Three brokers of which the first is controller and leads t-0 and t-1; followers are slow."""
    async with running(FollowingCluster(), brokers=3) as cluster:
        await create(cluster, "t", (0,), (0,))
        for broker in cluster.following():
            broker.is_slow = True
        yield cluster


async def create(cluster: ControllerCluster, name: str, *replicas: tuple[int, ...]) -> None:
    partitions = {i: ReplicaAssignment(replicas=r) for i, r in enumerate(replicas)}
    assignment = TopicAssignment(topic_id=UUID(int=45), partitions=partitions)
    await create_topic(cluster.controller.zk, name, assignment)
    await cluster.settle()


def wanted(wishes: Wishes) -> AlterPartitionReassignmentsRequest:
    kind = AlterPartitionReassignmentsRequest
    return kind(
        topics=[
            kind.ReassignableTopic(
                name=name,
                partitions=[kind.ReassignablePartition(partition_index=number, replicas=replicas)],
            )
            for name, number, replicas in wishes
        ]
    )


def rows(response: AlterPartitionReassignmentsResponse) -> list[Row]:
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    return [
        (topic.name, row.partition_index, row.error_code, row.error_message)
        for topic in response.responses
        for row in topic.partitions
    ]


async def alter(
    cluster: ControllerCluster, *wishes: tuple[str, int, list[int] | None]
) -> list[Row]:
    client = AdminClient(cluster.controller)
    found = rows(await client.ask(handle, wanted(list(wishes)), 0))
    await cluster.settle()
    return found


async def listed(cluster: ControllerCluster) -> dict[tuple[str, int], list[int]]:
    client = AdminClient(cluster.controller)
    request = ListPartitionReassignmentsRequest(topics=None)
    response = await client.ask(handle_list, request, 0)
    return {(t.name, p.partition_index): p.replicas for t in response.topics for p in t.partitions}


async def test_a_move_is_listed_until_its_target_is_in_sync(moving: FollowingCluster) -> None:
    assert await alter(moving, ("t", 0, [1, 2])) == [("t", 0, ErrorCode.NONE, None)]
    assert await listed(moving) == {("t", 0): [1, 2, 0]}
    for broker in moving.following():
        broker.is_slow = False
    await moving.catch_up()
    assert await listed(moving) == {}
    state = moving.brokers[2].metadata.partition_state(TopicPartition("t", 0))
    assert state is not None
    assert (state.leader, list(state.replicas), list(state.isr)) == (1, [1, 2], [1, 2])


async def test_a_move_is_called_off_by_null_and_only_once(moving: FollowingCluster) -> None:
    await alter(moving, ("t", 0, [1]))
    assert await alter(moving, ("t", 0, None)) == [("t", 0, ErrorCode.NONE, None)]
    assert await listed(moving) == {}
    nothing_moves = "No partition reassignment is in progress."
    assert await alter(moving, ("t", 0, None), ("no", 3, None)) == [
        ("t", 0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, nothing_moves),
        ("no", 3, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, nothing_moves),
    ]


async def test_a_move_that_cannot_be_is_refused_and_the_others_begin(
    moving: FollowingCluster,
) -> None:
    moving.brokers[2].kill()
    await moving.settle()
    dead = (
        "Replica assignment has brokers that are not alive. Replica list: ArrayBuffer(2), "
        "live broker list: Set(0, 1)"
    )
    wishes: Wishes = [("t", 0, [1]), ("t", 1, [2]), ("no", 0, [1]), ("t", 1, [])]
    assert await alter(moving, *wishes[:3]) == [
        ("t", 0, ErrorCode.NONE, None),
        ("t", 1, REFUSED, dead),
        ("no", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."),
    ]
    empty = "Empty replica list specified in partition reassignment."
    assert await alter(moving, wishes[3]) == [("t", 1, REFUSED, empty)]
    assert await listed(moving) == {("t", 0): [1, 0]}


async def test_the_last_wish_for_a_partition_counts(moving: FollowingCluster) -> None:
    assert await alter(moving, ("t", 0, [1]), ("t", 0, [2])) == [("t", 0, ErrorCode.NONE, None)]
    assert await listed(moving) == {("t", 0): [2, 0]}


async def test_a_broker_that_is_not_controller_says_so_for_the_whole(
    moving: FollowingCluster,
) -> None:
    answer = await AdminClient(moving.brokers[1]).ask(handle, wanted([("t", 0, [1])]), 0)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NOT_CONTROLLER, None)
    assert answer.responses == []


async def test_only_version_0_is_served_as_1_came_with_kraft() -> None:
    served = AlterPartitionReassignmentsRequest.spec.served
    assert (served.lowest, served.highest) == (0, 0)


async def test_a_move_through_another_broker_is_seen_there(
    forwarding_cluster: ForwardingCluster,
) -> None:
    await create(forwarding_cluster, "t", (0,))
    other = forwarding_cluster.broker(1)
    assert rows(await other.ask(wanted([("t", 0, [2])]), 0)) == [("t", 0, ErrorCode.NONE, None)]
    assert forwarding_cluster.asked == [(1, 0, "EnvelopeRequest")]
    state = other.metadata.partition_state(TopicPartition("t", 0))
    assert state is not None
    assert list(state.replicas) == [2, 0]


@pytest.mark.virtual_time
async def test_a_move_that_may_have_been_called_off_unheard_is_left_open(
    forwarding_cluster: ForwardingCluster,
) -> None:
    await create(forwarding_cluster, "t", (0,))
    other = forwarding_cluster.broker(1)
    await other.ask(wanted([("t", 0, [2])]), 0)
    forwarding_cluster.faults.append(afterwards(cut))
    (row,) = rows(await other.ask(wanted([("t", 0, None)]), 0))
    assert row[:3] == ("t", 0, ErrorCode.REQUEST_TIMED_OUT)


@pytest.mark.virtual_time
async def test_an_election_whose_answer_was_lost_is_asked_for_again(
    forwarding_cluster: ForwardingCluster,
) -> None:
    await create(forwarding_cluster, "t", (0,))
    forwarding_cluster.faults.append(afterwards(cut))
    asked = [ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])]
    request = ElectLeadersRequest(topic_partitions=asked)
    answer = await forwarding_cluster.broker(1).ask(request, 2)
    (topic,) = answer.replica_election_results
    assert [r.error_code for r in topic.partition_result] == [ErrorCode.ELECTION_NOT_NEEDED]


async def test_only_who_may_alter_the_cluster_moves_partitions(moving: FollowingCluster) -> None:
    services = services_without(
        AdminClient(moving.controller).services, (AclOperation.ALTER, CLUSTER)
    )
    answer = await ask(services, wanted([("t", 0, [1])]), 0)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert await listed(moving) == {}
