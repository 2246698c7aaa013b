"""A topic with three replicas through what happens to its brokers: failures, stops, returns, failed
directories, deletion, and the balance of leaders.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from kbroker.controller.state_machines import events
from kbroker.controller.state_machines.requested_elections import (
    AutoPreferredReplicaLeaderElection,
    ElectionType,
    ElectLeaders,
)
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.zk.nodes.zk_notifications import ZkNotifications
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.brokers.following_broker import FollowingCluster
from tests.fakes.clusters.controller_cluster import running
from tests.fakes.trees.topic_nodes import create_topic

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
# Broker 0 is controller.
REPLICAS = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
State = tuple[int, list[int], int]


@pytest.fixture
async def cluster() -> AsyncIterator[FollowingCluster]:
    async with running(FollowingCluster(), brokers=4) as cluster:
        partitions = {i: ReplicaAssignment(replicas=r) for i, r in enumerate(REPLICAS)}
        assignment = TopicAssignment(topic_id=UUID(int=3), partitions=partitions)
        await create_topic(cluster.controller.zk, "t", assignment)
        await cluster.settle()
        yield cluster


def states(cluster: FollowingCluster) -> list[State]:
    """Leader, ISR and leader epoch of each partition, as the tree has them."""
    found = [json.loads(line.partition(" ")[2]) for line in sorted(cluster.state())]
    return [(state["leader"], state["isr"], state["leader_epoch"]) for state in found]


def leaders(cluster: FollowingCluster) -> list[int]:
    return [leader for leader, _, _ in states(cluster)]


async def stop_controlled(cluster: FollowingCluster, broker_id: int) -> list[TopicPartition]:
    broker = cluster.brokers[broker_id]
    event = events.ControlledShutdown(broker_id, broker.broker_epoch)
    left: list[TopicPartition] = await cluster.controller.controller.ask(event)
    await cluster.settle()
    return left


def orders(cluster: FollowingCluster, broker_id: int, kind: str) -> list[str]:
    start = f"broker {broker_id} <- {kind} "
    return [line.removeprefix(start) for line in cluster.told if line.startswith(start)]


async def test_a_dead_broker_leaves_all_isrs_and_others_lead(cluster: FollowingCluster) -> None:
    cluster.told.clear()
    cluster.brokers[1].kill()
    await cluster.settle()
    assert states(cluster) == [(2, [2, 3], 1), (2, [2, 3], 1), (3, [3, 2], 1)]
    assert orders(cluster, 3, "LeaderAndIsr") == [
        "t-0 leader=2 epoch=1 isr=[2, 3]",
        "t-1 leader=2 epoch=1 isr=[2, 3]",
        "t-2 leader=3 epoch=1 isr=[3, 2]",
    ]
    assert "t-0 leader=2 epoch=1 isr=[2, 3] offline=[1]" in orders(cluster, 0, "UpdateMetadata")


async def test_the_last_in_sync_stays_alone_in_the_isr_when_its_broker_dies(
    cluster: FollowingCluster,
) -> None:
    for broker_id in (1, 2, 3):
        cluster.brokers[broker_id].kill()
        await cluster.settle()
    assert [(leader, isr) for leader, isr, _ in states(cluster)] == [(-1, [3])] * 3
    await cluster.start(1)  # it may lack records: nobody leads yet
    assert leaders(cluster) == [-1] * 3
    await cluster.start(3)
    assert [(leader, isr) for leader, isr, _ in states(cluster)] == [(3, [3])] * 3
    await cluster.catch_up()
    assert [sorted(isr) for _, isr, _ in states(cluster)] == [[1, 3]] * 3


async def test_a_broker_that_returns_follows_until_it_is_elected(cluster: FollowingCluster) -> None:
    cluster.brokers[1].kill()
    await cluster.settle()
    cluster.told.clear()
    await cluster.start(1)
    assert leaders(cluster) == [2, 2, 3]
    assert orders(cluster, 1, "LeaderAndIsr") == [
        "t-0 leader=2 epoch=1 isr=[2, 3]",
        "t-1 leader=2 epoch=1 isr=[2, 3]",
        "t-2 leader=3 epoch=1 isr=[3, 2]",
    ]
    wanted = ElectLeaders(frozenset({T0}), ElectionType.PREFERRED)
    refused = (await cluster.controller.controller.ask(wanted))[T0]
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    await cluster.catch_up()
    assert await cluster.controller.controller.ask(wanted) == {T0: 1}
    assert states(cluster)[0] == (1, [2, 3, 1], 2)


async def test_a_controlled_stop_moves_leaders_and_leaves_the_isrs(
    cluster: FollowingCluster,
) -> None:
    cluster.told.clear()
    assert await stop_controlled(cluster, 1) == []
    assert [(leader, sorted(isr)) for leader, isr, _ in states(cluster)] == [
        (2, [2, 3]),
        (2, [2, 3]),
        (3, [2, 3]),
    ]
    # It follows on where it led, and is stopped where it followed.
    assert orders(cluster, 1, "LeaderAndIsr") == ["t-0 leader=2 epoch=1 isr=[2, 3]"]
    assert orders(cluster, 1, "StopReplica") == ["t-1 epoch=1", "t-2 epoch=1"]


async def test_brokers_hear_that_one_has_gone_which_had_left_all_isrs_under_another_controller(
    cluster: FollowingCluster,
) -> None:
    await stop_controlled(cluster, 3)
    cluster.brokers[0].kill()
    await cluster.settle()
    assert cluster.controller.broker_id == 1
    cluster.told.clear()
    cluster.brokers[3].kill()
    await cluster.settle()
    assert [(leader, sorted(isr)) for leader, isr, _ in states(cluster)] == [
        (1, [1, 2]),
        (2, [1, 2]),
        (1, [1, 2]),
    ]
    told = orders(cluster, 2, "UpdateMetadata")
    assert [line.split()[0] for line in told if line.endswith(" offline=[3]")] == [
        "t-0",
        "t-1",
        "t-2",
    ]


async def test_a_broker_that_alone_is_in_sync_keeps_leading_while_it_stops(
    cluster: FollowingCluster,
) -> None:
    for broker_id in (2, 3):
        cluster.brokers[broker_id].kill()
        await cluster.settle()
    await cluster.start(2)
    assert await stop_controlled(cluster, 1) == [T0, T1, T2]
    assert [(leader, isr) for leader, isr, _ in states(cluster)] == [(1, [1])] * 3


async def test_the_last_of_all_brokers_that_stop_need_not_wait(cluster: FollowingCluster) -> None:
    for broker_id in sorted(set(cluster.brokers) - {1}):
        await stop_controlled(cluster, broker_id)
    assert leaders(cluster) == [1, 1, 1]
    assert await stop_controlled(cluster, 1) == []


async def test_a_failed_directory_is_as_a_dead_broker_for_its_replicas_only(
    cluster: FollowingCluster,
) -> None:
    broker = cluster.brokers[1]
    broker.failed_replicas = {T0}
    await ZkNotifications(broker.zk).propagate_log_dir_event(1)
    await cluster.settle()
    assert states(cluster) == [(2, [2, 3], 1), (2, [2, 3, 1], 0), (3, [3, 1, 2], 0)]


async def test_a_topic_goes_when_the_broker_with_its_last_replica_is_back(
    cluster: FollowingCluster,
) -> None:
    cluster.brokers[3].kill()
    await cluster.settle()
    await cluster.controller.zk.create_delete_topics(["t"])
    await cluster.settle()
    assert "t" in cluster.controller.controller.context.assignments
    cluster.told.clear()
    await cluster.start(3)
    assert orders(cluster, 3, "StopReplica")[-3:] == [f"t-{n} epoch=-2 delete" for n in range(3)]
    assert cluster.state() == []
    assert "t" not in cluster.controller.controller.context.assignments


async def test_leaders_are_balanced_once_their_brokers_are_in_sync(
    cluster: FollowingCluster,
) -> None:
    cluster.brokers[1].kill()
    await cluster.settle()
    await cluster.start(1)
    balance = AutoPreferredReplicaLeaderElection()
    await cluster.controller.controller.ask(balance)
    assert leaders(cluster) == [2, 2, 3]
    await cluster.catch_up()
    await cluster.controller.controller.ask(balance)
    assert leaders(cluster) == [1, 2, 3]


async def test_an_unclean_election_leaves_one_in_sync_and_says_that_it_recovers(
    cluster: FollowingCluster,
) -> None:
    for broker_id in (2, 3, 1):
        cluster.brokers[broker_id].kill()
        await cluster.settle()
    await cluster.start(3)
    wanted = ElectLeaders(frozenset({T0, T1, T2}), ElectionType.UNCLEAN)
    assert await cluster.controller.controller.ask(wanted) == {T0: 3, T1: 3, T2: 3}
    assert [(leader, isr) for leader, isr, _ in states(cluster)] == [(3, [3])] * 3
    assert all('"leader_recovery_state":1' in line for line in cluster.state())
