"""A leader asks for another ISR: what the controller writes, tells, and refuses."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from kbroker.controller.state_machines.isr_change import AlterPartition, AlterPartitionResult
from kbroker.errors import ErrorCode
from kbroker.model import LeaderAndIsr, ReplicaAssignment, TopicPartition
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.clusters.controller_cluster import ControllerCluster
from tests.fakes.trees.topic_nodes import create_topic

T0, UNKNOWN = TopicPartition("t", 0), TopicPartition("no-such", 0)
STATE_PATH = "/brokers/topics/t/partitions/0/state"


@pytest.fixture
async def cluster(cluster: ControllerCluster) -> ControllerCluster:
    """Broker 0 is controller, broker 1 leads t-0 and its only follower, broker 0, is in sync."""
    partitions = {0: ReplicaAssignment(replicas=(1, 0))}
    topic = TopicAssignment(topic_id=UUID(int=7), partitions=partitions)
    await create_topic(cluster.controller.zk, "t", topic)
    await cluster.settle()
    return cluster


def current(cluster: ControllerCluster) -> LeaderAndIsr:
    context = cluster.controller.controller.context
    assert context is not None
    return context.leadership[T0].leader_and_isr


async def alter(
    cluster: ControllerCluster,
    wanted: LeaderAndIsr,
    *,
    partition: TopicPartition = T0,
    broker_epoch: int | None = None,
) -> AlterPartitionResult:
    epoch = cluster.brokers[1].broker_epoch if broker_epoch is None else broker_epoch
    event = AlterPartition(1, epoch, {partition: wanted})
    result: AlterPartitionResult = await cluster.controller.controller.ask(event)
    await cluster.settle()
    return result


async def test_an_isr_is_written_and_all_brokers_hear_of_it(cluster: ControllerCluster) -> None:
    cluster.told.clear()
    before = current(cluster)
    result = await alter(cluster, replace(before, isr=(1,)))
    expected = replace(before, isr=(1,), partition_epoch=before.partition_epoch + 1)
    assert result == AlterPartitionResult(ErrorCode.NONE, {T0: expected})
    assert current(cluster) == expected
    assert cluster.state() == [
        't-0 {"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    ]
    assert sorted(cluster.told) == [
        "broker 0 <- UpdateMetadata t-0 leader=1 epoch=0 isr=[1]",
        "broker 1 <- UpdateMetadata t-0 leader=1 epoch=0 isr=[1]",
    ]


async def test_asking_again_gives_the_same_answer_and_writes_nothing(
    cluster: ControllerCluster,
) -> None:
    wanted = replace(current(cluster), isr=(1,))
    first = await alter(cluster, wanted)
    assert await alter(cluster, wanted) == first
    assert current(cluster).partition_epoch == 1


async def test_a_state_that_was_changed_behind_the_controller_is_not_overwritten(
    cluster: ControllerCluster,
) -> None:
    wanted = replace(current(cluster), isr=(1,))
    data, _ = await cluster.brokers[1].session.get(STATE_PATH)
    await cluster.brokers[1].session.set(STATE_PATH, data)
    result = await alter(cluster, wanted)
    assert result.partitions == {T0: ErrorCode.INVALID_UPDATE_VERSION}
    assert '"isr":[1,0]' in cluster.state()[0]


async def test_an_earlier_life_of_a_broker_and_an_unknown_broker_are_refused(
    cluster: ControllerCluster,
) -> None:
    wanted = replace(current(cluster), isr=(1,))
    refused = AlterPartitionResult(ErrorCode.STALE_BROKER_EPOCH, {})
    assert await alter(cluster, wanted, broker_epoch=1) == refused
    event = AlterPartition(9, 1, {T0: wanted})
    assert await cluster.controller.controller.ask(event) == refused
    assert current(cluster).isr == (1, 0)


async def test_a_partition_that_is_not_there_and_a_dead_replica_are_refused(
    cluster: ControllerCluster,
) -> None:
    unknown = await alter(cluster, current(cluster), partition=UNKNOWN)
    assert unknown.partitions == {UNKNOWN: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    dead = await alter(cluster, replace(current(cluster), isr=(1, 0, 5)))
    assert dead.partitions == {T0: ErrorCode.INELIGIBLE_REPLICA}


@pytest.mark.parametrize("brokers", [3])
async def test_a_broker_that_holds_no_replica_joins_no_isr(cluster: ControllerCluster) -> None:
    """The leader may not have heard that a move was called off."""
    result = await alter(cluster, replace(current(cluster), isr=(1, 0, 2)))
    assert result.partitions == {T0: ErrorCode.INELIGIBLE_REPLICA}


async def test_a_broker_that_is_about_to_stop_joins_no_isr(cluster: ControllerCluster) -> None:
    await alter(cluster, replace(current(cluster), isr=(1,)))
    await cluster.controller.controller.controlled_shutdown(0)
    result = await alter(cluster, replace(current(cluster), isr=(1, 0)))
    assert result.partitions == {T0: ErrorCode.INELIGIBLE_REPLICA}
