"""Elections asked for by a node, and those that keep leaders balanced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from kbroker.controller.active import leader_elections
from kbroker.controller.active.leader_elections import NO_LEADER_BALANCE, LeaderBalanceSettings
from kbroker.controller.machines.election_request import AutoPreferredReplicaLeaderElection
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.zk.zk_paths import PREFERRED_REPLICA_ELECTION, TopicAssignment
from tests.fakes.following_broker import FollowingCluster
from tests.fakes.preferred_election import preferred_election
from tests.fakes.topic_nodes import create_topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Scenario = Callable[[FollowingCluster], Awaitable[None]]


def run(scenario: Scenario, leader_balance: LeaderBalanceSettings = NO_LEADER_BALANCE) -> None:
    """Brokers 0 and 1; broker 1 should lead topic t, and has just come back."""

    async def main() -> None:
        cluster = FollowingCluster()
        cluster.leader_balance = leader_balance
        try:
            await cluster.start(0)
            await cluster.start(1)
            partitions = {i: ReplicaAssignment(replicas=(1, 0)) for i in range(2)}
            topic = TopicAssignment(topic_id=UUID(int=7), partitions=partitions)
            await create_topic(cluster.controller.zk, "t", topic, {})
            await cluster.settle()
            cluster.brokers[1].kill()
            await cluster.settle()
            await cluster.start(1)
            await cluster.catch_up()
            await scenario(cluster)
        finally:
            await cluster.stop()

    asyncio.run(main())


def leaders(cluster: FollowingCluster) -> list[int]:
    context = cluster.controller.controller.context
    assert context is not None
    return [context.leadership[p].leader_and_isr.leader for p in (T0, T1)]


def has_request(cluster: FollowingCluster) -> bool:
    return any(path == PREFERRED_REPLICA_ELECTION for path, _, _ in cluster.tree.dump())


async def ask_by_node(cluster: FollowingCluster, data: bytes) -> None:
    await cluster.brokers[1].session.create(PREFERRED_REPLICA_ELECTION, data)
    await cluster.settle()


def test_preferred_leaders_are_elected_for_each_request_of_a_node() -> None:
    async def scenario(cluster: FollowingCluster) -> None:
        await ask_by_node(cluster, preferred_election([T0, TopicPartition("no", 0)]))
        assert (leaders(cluster), has_request(cluster)) == ([1, 0], False)
        await ask_by_node(cluster, preferred_election([T1]))
        assert (leaders(cluster), has_request(cluster)) == ([1, 1], False)

    run(scenario)


@pytest.mark.parametrize("data", [b"", b"{", b'{"version":1,"partitions":[{"topic":1}]}'])
def test_a_node_that_is_no_request_goes_and_harms_nothing(data: bytes) -> None:
    async def scenario(cluster: FollowingCluster) -> None:
        await ask_by_node(cluster, data)
        assert (leaders(cluster), has_request(cluster)) == ([0, 0], False)
        await ask_by_node(cluster, preferred_election([T0]))
        assert leaders(cluster) == [1, 0]

    run(scenario)


def test_a_new_controller_works_the_request_it_finds() -> None:
    async def scenario(cluster: FollowingCluster) -> None:
        data = preferred_election([T0])
        await cluster.brokers[1].session.create(PREFERRED_REPLICA_ELECTION, data)
        cluster.brokers[0].kill()
        await cluster.settle()
        assert (leaders(cluster), has_request(cluster)) == ([1, 1], False)

    run(scenario)


def test_leaders_are_balanced_when_it_is_time() -> None:
    async def scenario(cluster: FollowingCluster) -> None:
        await cluster.controller.controller.ask(AutoPreferredReplicaLeaderElection())
        assert leaders(cluster) == [1, 1]

    run(scenario)


def test_a_few_leaders_in_the_wrong_place_may_stay() -> None:
    async def scenario(cluster: FollowingCluster) -> None:
        await ask_by_node(cluster, preferred_election([T0]))
        await cluster.controller.controller.ask(AutoPreferredReplicaLeaderElection())
        assert leaders(cluster) == [1, 0]

    run(scenario, LeaderBalanceSettings(imbalance_per_broker_percentage=50))


@pytest.mark.parametrize(("interval_s", "expected"), [(0.0, [1, 1]), (3600.0, [0, 0])])
def test_the_controller_looks_at_the_balance_each_time_the_interval_is_over(
    interval_s: float, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_elections, "FIRST_BALANCE_AFTER_S", 0.0)

    async def scenario(cluster: FollowingCluster) -> None:
        await cluster.settle()
        assert leaders(cluster) == expected

    run(scenario, LeaderBalanceSettings(check_interval_s=interval_s))
