"""Leaders that write their ISRs into the tree, as before Kafka 2.7, and the controller that hears."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from kbroker.model import LeaderAndIsr, ReplicaAssignment, TopicPartition
from kbroker.server.membership.zk_isr_manager import asks_controller
from kbroker.zk import zk_paths
from kbroker.zk.tree import TreeUnavailableError
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.clusters.controller_cluster import running
from tests.fakes.clusters.replicating_cluster import ReplicatingBroker, ReplicatingCluster
from tests.fakes.trees.topic_nodes import create_topic

pytestmark = pytest.mark.virtual_time
T = TopicPartition("t", 0)
STATE_PATH = zk_paths.partition_state_path(*T)
LEADER, FOLLOWER = 1, 2


@pytest.fixture
async def cluster() -> AsyncIterator[ReplicatingCluster]:
    """Three brokers, 0 is controller, 1 leads a partition that 2 follows."""
    cluster = ReplicatingCluster()
    cluster.leaders_write_isrs = True
    async with running(cluster, brokers=3):
        topic = TopicAssignment(
            topic_id=UUID(int=7), partitions={0: ReplicaAssignment(replicas=(LEADER, FOLLOWER))}
        )
        await create_topic(cluster.controller.zk, "t", topic)
        await cluster.settle()
        yield cluster


@pytest.fixture
def leader(cluster: ReplicatingCluster) -> ReplicatingBroker:
    return cluster.broker(LEADER)


async def shrink(cluster: ReplicatingCluster) -> None:
    """The follower lags."""
    leader = cluster.broker(LEADER)
    leader.append(T, 1)
    await asyncio.sleep(31)
    leader.replicas.maybe_shrink_isr()
    await cluster.settle()


def known_to_controller(cluster: ReplicatingCluster) -> LeaderAndIsr:
    context = cluster.controller.controller.context
    assert context is not None
    return context.leadership[T].leader_and_isr


async def test_an_isr_is_written_and_the_controller_tells_it_to_all(
    cluster: ReplicatingCluster, leader: ReplicatingBroker
) -> None:
    cluster.told.clear()

    await shrink(cluster)

    state = leader.partition(T).state
    assert (state.isr, state.pending_isr, state.partition_epoch) == ((LEADER,), None, 1)
    assert cluster.state() == [
        't-0 {"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    ]
    assert known_to_controller(cluster).isr == (LEADER,)
    assert "broker 2 <- UpdateMetadata t-0 leader=1 epoch=0 isr=[1]" in cluster.told
    assert cluster.asked == []


async def test_a_follower_joins_again(
    cluster: ReplicatingCluster, leader: ReplicatingBroker
) -> None:
    await shrink(cluster)

    leader.hear_fetch(T, 1, FOLLOWER, cluster.broker(FOLLOWER).broker_epoch)
    await cluster.settle()

    assert leader.partition(T).state.isr == known_to_controller(cluster).isr == (LEADER, FOLLOWER)


async def test_what_was_changed_behind_the_leader_is_not_overwritten(
    cluster: ReplicatingCluster, leader: ReplicatingBroker
) -> None:
    data, _ = await leader.session.get(STATE_PATH)
    await leader.session.set(STATE_PATH, data)

    await shrink(cluster)

    assert '"isr":[1,2]' in cluster.state()[0]
    assert leader.partition(T).state.pending_isr == (LEADER,)  # until the controller tells


async def test_a_write_whose_answer_was_lost_counts_and_is_announced(
    cluster: ReplicatingCluster, leader: ReplicatingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    multi_all, create = leader.session.multi_all, leader.session.create
    lost = [multi_all, create]

    async def write(transactions):
        result = await multi_all(transactions)
        if multi_all in lost:
            lost.remove(multi_all)
            raise TreeUnavailableError(STATE_PATH)
        return result

    async def announce(*arguments, **fields):
        if create in lost:
            lost.remove(create)
            raise TreeUnavailableError("/isr_change_notification")
        return await create(*arguments, **fields)

    monkeypatch.setattr(leader.session, "multi_all", write)
    monkeypatch.setattr(leader.session, "create", announce)
    await shrink(cluster)
    await asyncio.sleep(1)

    state = leader.partition(T).state
    assert (state.isr, state.pending_isr, state.partition_epoch) == ((LEADER,), None, 1)
    assert known_to_controller(cluster) == LeaderAndIsr(
        leader=LEADER, leader_epoch=0, isr=(LEADER,), partition_epoch=1
    )
    assert lost == []


async def test_a_partition_that_is_gone_is_written_no_more(
    cluster: ReplicatingCluster, leader: ReplicatingBroker
) -> None:
    await leader.session.delete(STATE_PATH)

    await shrink(cluster)
    await asyncio.sleep(1)

    assert cluster.state() == []
    assert leader.partition(T).state.pending_isr == (LEADER,)


@pytest.mark.parametrize("version", ["0.10.2-IV0", "2.6", "2.7-IV0", "2.7-IV1"])
def test_leaders_write_below_the_version_that_has_the_request(version: str) -> None:
    assert not asks_controller(version)


@pytest.mark.parametrize("version", ["2.7-IV2", "2.7", "2.8", "3.9-IV0"])
def test_leaders_ask_from_the_version_that_has_the_request(version: str) -> None:
    assert asks_controller(version)
