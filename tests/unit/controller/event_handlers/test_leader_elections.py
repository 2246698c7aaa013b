"""Elections asked for by a node, and those that keep leaders balanced."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from kbroker.controller.event_handlers import leader_elections
from kbroker.controller.event_handlers.leader_elections import (
    NO_LEADER_BALANCE,
    LeaderBalanceSettings,
)
from kbroker.controller.state_machines.requested_elections import AutoPreferredReplicaLeaderElection
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.zk.zk_paths import PREFERRED_REPLICA_ELECTION, TopicAssignment
from tests.fakes.brokers.following_broker import FollowingCluster
from tests.fakes.clusters.controller_cluster import running
from tests.fakes.trees.preferred_election import preferred_election
from tests.fakes.trees.topic_nodes import create_topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def leader_balance() -> LeaderBalanceSettings:
    return NO_LEADER_BALANCE


@pytest.fixture
async def cluster(leader_balance: LeaderBalanceSettings) -> AsyncIterator[FollowingCluster]:
    """Brokers 0 and 1; broker 1 should lead topic t, and has just come back."""
    following = FollowingCluster()
    following.leader_balance = leader_balance
    async with running(following, brokers=2) as cluster:
        partitions = {i: ReplicaAssignment(replicas=(1, 0)) for i in range(2)}
        topic = TopicAssignment(topic_id=UUID(int=7), partitions=partitions)
        await create_topic(cluster.controller.zk, "t", topic)
        await cluster.settle()
        cluster.brokers[1].kill()
        await cluster.settle()
        await cluster.start(1)
        await cluster.catch_up()
        yield cluster


def leaders(cluster: FollowingCluster) -> list[int]:
    context = cluster.controller.controller.context
    assert context is not None
    return [context.leadership[p].leader_and_isr.leader for p in (T0, T1)]


def has_request(cluster: FollowingCluster) -> bool:
    return any(path == PREFERRED_REPLICA_ELECTION for path, _, _ in cluster.tree.dump())


async def ask_by_node(cluster: FollowingCluster, data: bytes) -> None:
    await cluster.brokers[1].session.create(PREFERRED_REPLICA_ELECTION, data)
    await cluster.settle()


async def test_preferred_leaders_are_elected_for_each_request_of_a_node(
    cluster: FollowingCluster,
) -> None:
    await ask_by_node(cluster, preferred_election([T0, TopicPartition("no", 0)]))
    assert (leaders(cluster), has_request(cluster)) == ([1, 0], False)
    await ask_by_node(cluster, preferred_election([T1]))
    assert (leaders(cluster), has_request(cluster)) == ([1, 1], False)


@pytest.mark.parametrize("data", [b"", b"{", b'{"version":1,"partitions":[{"topic":1}]}'])
async def test_a_node_that_is_no_request_goes_and_harms_nothing(
    data: bytes, cluster: FollowingCluster
) -> None:
    await ask_by_node(cluster, data)
    assert (leaders(cluster), has_request(cluster)) == ([0, 0], False)
    await ask_by_node(cluster, preferred_election([T0]))
    assert leaders(cluster) == [1, 0]


async def test_a_new_controller_works_the_request_it_finds(cluster: FollowingCluster) -> None:
    data = preferred_election([T0])
    await cluster.brokers[1].session.create(PREFERRED_REPLICA_ELECTION, data)
    cluster.brokers[0].kill()
    await cluster.settle()
    assert (leaders(cluster), has_request(cluster)) == ([1, 1], False)


async def test_leaders_are_balanced_when_it_is_time(cluster: FollowingCluster) -> None:
    await cluster.controller.controller.ask(AutoPreferredReplicaLeaderElection())
    assert leaders(cluster) == [1, 1]


@pytest.mark.parametrize(
    "leader_balance", [LeaderBalanceSettings(imbalance_per_broker_percentage=50)]
)
async def test_a_few_leaders_in_the_wrong_place_may_stay(cluster: FollowingCluster) -> None:
    await ask_by_node(cluster, preferred_election([T0]))
    await cluster.controller.controller.ask(AutoPreferredReplicaLeaderElection())
    assert leaders(cluster) == [1, 0]


@pytest.fixture
def first_balance_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_elections, "FIRST_BALANCE_AFTER_S", 0.0)


@pytest.mark.parametrize(
    ("leader_balance", "expected"),
    [
        (LeaderBalanceSettings(check_interval_s=0.0), [1, 1]),
        (LeaderBalanceSettings(check_interval_s=3600.0), [0, 0]),
    ],
)
async def test_the_controller_looks_at_the_balance_each_time_the_interval_is_over(
    first_balance_at_once: None, expected: list[int], cluster: FollowingCluster
) -> None:
    await cluster.settle()
    assert leaders(cluster) == expected
