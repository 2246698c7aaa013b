"""Brokers that die and come back while there is no controller: none has seen it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

import pytest

from kbroker.controller.event_handlers import doubtful_elections
from kbroker.controller.state_machines.unseen_returns import most_advanced
from kbroker.log.partition.leader_epoch_cache import EpochEndOffset
from kbroker.model import ReplicaAssignment
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.brokers.following_broker import FollowingCluster
from tests.fakes.clusters.controller_cluster import FakeBroker, running
from tests.fakes.trees.topic_nodes import create_topic

# Broker 0 is controller at first.
REPLICAS = ((1, 2, 3), (2, 1, 3), (1, 2), (1,))
NEVER_S = 1e6
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


async def bounce_unseen(cluster: FollowingCluster, *broker_ids: int) -> None:
    """Broker 0, the controller, dies, and these die and are back before there is another one."""
    cluster.brokers[0].kill()
    back = []
    for broker_id in broker_ids:
        cluster.brokers[broker_id].kill()
        broker = cluster.brokers[broker_id] = cluster.make_broker(broker_id, None)
        await broker.register()
        back.append(broker)
    cluster.told.clear()
    for broker in back:
        await broker.controller.startup()
    await cluster.settle()


def orders(cluster: FollowingCluster, broker_id: int) -> list[str]:
    """Orders to lead, follow or stop that a broker was given, in their order."""
    start = f"broker {broker_id} <- "
    kinds = ("LeaderAndIsr t-0 ", "StopReplica t-0 ")
    lines = [line.removeprefix(start) for line in cluster.told if line.startswith(start)]
    return [line for line in lines if line.startswith(kinds)]


async def test_a_leader_that_returned_unseen_leads_no_more_and_leaves_the_isr(
    cluster: FollowingCluster,
) -> None:
    assert states(cluster)[0] == (1, [1, 2, 3], 0)

    await bounce_unseen(cluster, 1)

    assert states(cluster) == [
        (2, [2, 3], 2),
        (2, [2, 3], 1),
        (2, [2], 2),
        (1, [1], 0),
    ]
    assert orders(cluster, 1)[-1] == "LeaderAndIsr t-0 leader=2 epoch=2 isr=[2, 3]"
    assert not any("leader=1" in order for order in orders(cluster, 1))


async def test_where_all_in_sync_returned_the_leader_goes_on_at_a_new_epoch(
    cluster: FollowingCluster,
) -> None:
    await bounce_unseen(cluster, 1, 2, 3)

    assert states(cluster) == [
        (1, [1, 2, 3], 1),
        (2, [2, 1, 3], 1),
        (1, [1, 2], 1),
        (1, [1], 0),
    ]
    assert orders(cluster, 1)[0] == "LeaderAndIsr t-0 leader=1 epoch=1 isr=[1, 2, 3]"


async def test_one_whose_return_was_seen_stays_what_it_is(cluster: FollowingCluster) -> None:
    cluster.brokers[1].kill()
    await cluster.settle()
    await cluster.start(1)
    await cluster.catch_up()
    before = states(cluster)

    cluster.brokers[0].kill()
    await cluster.settle()

    assert states(cluster) == before


def lose_memory(cluster: FollowingCluster, broker_id: int) -> FakeBroker:
    """The machine of a broker is off, and on again: its process has yet to register."""
    cluster.brokers[broker_id].kill()
    broker = cluster.brokers[broker_id] = cluster.make_broker(broker_id, None)
    broker.registration = replace(broker.registration, has_lost_memory=True)
    return broker


async def test_the_last_in_sync_is_in_doubt_also_where_its_end_and_its_return_are_seen_at_once(
    cluster: FollowingCluster,
) -> None:
    for broker_id in (2, 3):
        cluster.brokers[broker_id].kill()
        await cluster.settle()
    assert states(cluster)[0] == (1, [1], 2)

    await lose_memory(cluster, 1).register()
    await cluster.settle()

    assert states(cluster)[0][:2] == (-1, [1])
    assert states(cluster)[3][:2] == (1, [1]), "there is no other replica"


async def test_doubts_are_looked_at_again_where_the_cluster_was_read_again(
    cluster: FollowingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that comes while the controller trusts nothing is dropped with the other events."""
    monkeypatch.setattr(doubtful_elections, "FIRST_LOOK_AFTER_S", NEVER_S)
    for broker_id in (2, 3):
        cluster.brokers[broker_id].kill()
        await cluster.settle()
    await lose_memory(cluster, 1).register()
    await cluster.settle()
    assert states(cluster)[0][:2] == (-1, [1])

    monkeypatch.setattr(doubtful_elections, "FIRST_LOOK_AFTER_S", 0)
    monkeypatch.setattr(doubtful_elections, "WAIT_S", 0)
    cluster.controller.controller.read_anew()
    await cluster.settle()

    assert states(cluster)[0][:2] == (1, [1])


async def test_a_doubt_outlives_the_controller_that_has_it(cluster: FollowingCluster) -> None:
    for broker_id in (2, 3):
        cluster.brokers[broker_id].kill()
        await cluster.settle()
    cluster.brokers[0].kill()
    await lose_memory(cluster, 1).register()
    for _ in range(2):  # one that says in the tree that nobody leads, and one that reads that
        await cluster.start(0)
        await cluster.settle()
        assert states(cluster)[0][:2] == (-1, [1])
        cluster.brokers[0].kill()


async def test_one_that_has_caught_up_since_is_in_no_doubt(cluster: FollowingCluster) -> None:
    await lose_memory(cluster, 2).start()
    await cluster.settle()
    await cluster.catch_up()
    assert states(cluster)[0] == (1, [1, 3, 2], 1)

    cluster.brokers[3].kill()
    cluster.brokers[1].kill()
    await cluster.settle()

    assert states(cluster)[0][:2] == (2, [2])


async def test_nor_is_one_in_topics_that_were_made_since(cluster: FollowingCluster) -> None:
    for broker_id in (1, 2, 3):
        await lose_memory(cluster, broker_id).start()
    await cluster.settle()
    await cluster.catch_up()
    assignment = TopicAssignment(
        topic_id=UUID(int=4), partitions={0: ReplicaAssignment(replicas=(1, 2))}
    )
    await create_topic(cluster.controller.zk, "a", assignment)
    await cluster.settle()

    cluster.brokers[1].kill()
    await cluster.settle()

    assert states(cluster)[0][:2] == (2, [2])


@pytest.mark.parametrize(
    ("ends", "leader"),
    [
        ({1: (2, 9), 2: (3, 4)}, 2),
        ({1: (-1, 0), 2: (0, 3)}, 2),
        (
            {1: (3, 20), 2: (-1, 24)},
            2,
        ),  # all of its records were deleted, and their epoch with them
        ({1: (3, 25), 2: (-1, 24)}, 1),
        # one of them says nothing of the others' epochs: old records are no more for being many
        ({1: (-1, 1), 2: (5, 16), 3: (0, 19)}, 2),
        ({1: (-1, 17), 2: (5, 16), 3: (0, 19)}, 1),
        ({1: (-1, 16), 2: (5, 16), 3: (0, 19)}, 1),
        ({2: (-1, 3), 3: (-1, 4)}, 3),
    ],
)
def test_the_log_that_reaches_furthest_leads(ends: dict[int, tuple[int, int]], leader: int) -> None:
    known = {broker_id: EpochEndOffset(*end) for broker_id, end in ends.items()}

    assert most_advanced((1, 2, 3), (1,), known).leader == leader
