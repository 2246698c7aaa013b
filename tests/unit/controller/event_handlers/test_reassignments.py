"""Partitions move as KIP-455 says: begun by event or by node, resumed, turned elsewhere, called
off; and not at all as long as brokers cannot copy them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from kbroker.controller.state_machines import events
from kbroker.controller.state_machines.controller_context import Replica, ReplicaState
from kbroker.controller.state_machines.reassignment_phases import AlterPartitionReassignments
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.zk import zk_paths
from kbroker.zk.nodes.admin_znodes import encode_reassignment
from kbroker.zk.nodes.zk_notifications import ZkNotifications
from kbroker.zk.zk_paths import REASSIGN_PARTITIONS, TopicAssignment
from tests.fakes.brokers.following_broker import FollowingCluster
from tests.fakes.clusters.controller_cluster import running
from tests.fakes.trees.topic_nodes import create_topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def topic(*replicas: tuple[int, ...]) -> pytest.MarkDecorator:
    """The test begins with topic t, whose partitions have these replicas."""
    return pytest.mark.parametrize("replicas", [replicas])


@pytest.fixture
async def cluster(replicas: tuple[tuple[int, ...], ...]) -> AsyncIterator[FollowingCluster]:
    """Brokers 0, 1 and 2 with topic t."""
    async with running(FollowingCluster(), brokers=3) as cluster:
        partitions = {i: ReplicaAssignment(replicas=r) for i, r in enumerate(replicas)}
        assignment = TopicAssignment(topic_id=UUID(int=7), partitions=partitions)
        await create_topic(cluster.controller.zk, "t", assignment)
        await cluster.settle()
        yield cluster


async def move(
    cluster: FollowingCluster, targets: dict[TopicPartition, tuple[int, ...] | None]
) -> dict[TopicPartition, ErrorCode]:
    answers = await cluster.controller.controller.ask(AlterPartitionReassignments(targets))
    await cluster.settle()
    return {
        partition: answer.code if isinstance(answer, KafkaError) else ErrorCode.NONE
        for partition, answer in answers.items()
    }


async def ask_by_node(
    cluster: FollowingCluster, targets: dict[TopicPartition, tuple[int, ...]]
) -> None:
    await cluster.controller.session.create(REASSIGN_PARTITIONS, encode_reassignment(targets))
    await cluster.settle()


def slow_down(cluster: FollowingCluster) -> None:
    for broker in cluster.following():
        broker.is_slow = True


async def catch_up(cluster: FollowingCluster) -> None:
    for broker in cluster.following():
        broker.is_slow = False
    await cluster.catch_up()


def node(cluster: FollowingCluster, path: str) -> dict[str, object] | None:
    data = next((data for found, data, _ in cluster.tree.dump() if found == path), None)
    return None if data is None else json.loads(data)


def assignment(cluster: FollowingCluster) -> tuple[object, object, object]:
    found = node(cluster, "/brokers/topics/t")
    assert found is not None
    return found["partitions"], found["adding_replicas"], found["removing_replicas"]


def state(cluster: FollowingCluster, partition: int = 0) -> tuple[object, object]:
    found = node(cluster, f"/brokers/topics/t/partitions/{partition}/state")
    assert found is not None
    return found["leader"], found["isr"]


@topic((0,))
async def test_a_partition_moves_when_its_target_is_in_sync(cluster: FollowingCluster) -> None:
    slow_down(cluster)
    assert await move(cluster, {T0: (1, 2)}) == {T0: ErrorCode.NONE}
    assert assignment(cluster) == ({"0": [1, 2, 0]}, {"0": [1, 2]}, {"0": [0]})
    assert state(cluster) == (0, [0])
    cluster.told.clear()
    await catch_up(cluster)
    assert assignment(cluster) == ({"0": [1, 2]}, {}, {})
    assert state(cluster) == (1, [1, 2])
    assert any("broker 0 <- StopReplica t-0" in t and "delete" in t for t in cluster.told)
    context = cluster.controller.controller.context
    assert context is not None
    assert context.replica_states == {
        Replica(T0, 1): ReplicaState.ONLINE,
        Replica(T0, 2): ReplicaState.ONLINE,
    }


@topic((0, 1), (0, 1))
async def test_replicas_are_dropped_and_ordered_anew_without_copies(
    cluster: FollowingCluster,
) -> None:
    slow_down(cluster)
    assert await move(cluster, {T0: (0,), T1: (1, 0)}) == dict.fromkeys((T0, T1), ErrorCode.NONE)
    assert assignment(cluster) == ({"0": [0], "1": [1, 0]}, {}, {})
    assert (state(cluster, 0), state(cluster, 1)) == ((0, [0]), (0, [0, 1]))


@topic((0,), (1,))
async def test_a_partition_leaves_the_node_when_it_has_arrived_and_the_others_stay(
    cluster: FollowingCluster,
) -> None:
    slow_down(cluster)
    await ask_by_node(cluster, {T0: (1,), T1: (2, 1), TopicPartition("no", 0): (0,)})
    left = node(cluster, REASSIGN_PARTITIONS)
    assert left is not None
    assert str(left["partitions"]).count("topic") == 2
    epochs = [t for t in cluster.told if "LeaderAndIsr t-1" in t]
    for broker in cluster.following():
        broker.is_slow = broker.broker_id == 2
    await cluster.catch_up()
    left = node(cluster, REASSIGN_PARTITIONS)
    assert left == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 1, "replicas": [2, 1]}],
    }
    # That the node has changed moves nobody else again.
    assert [t for t in cluster.told if "LeaderAndIsr t-1" in t] == epochs
    await catch_up(cluster)
    assert node(cluster, REASSIGN_PARTITIONS) is None
    assert assignment(cluster) == ({"0": [1], "1": [2, 1]}, {}, {})


@topic((0,))
async def test_a_second_request_is_heard_after_the_first(cluster: FollowingCluster) -> None:
    for target in ((1,), (2,), (0,)):
        await ask_by_node(cluster, {T0: target})
        await cluster.catch_up()
        assert node(cluster, REASSIGN_PARTITIONS) is None
        assert assignment(cluster) == ({"0": [*target]}, {}, {})


@pytest.mark.parametrize("target", [(), (1, 1), (-1,)])
@topic((0,))
async def test_a_node_cannot_ask_for_replicas_that_make_no_partition(
    target: tuple[int, ...], cluster: FollowingCluster
) -> None:
    await ask_by_node(cluster, {T0: target})
    assert node(cluster, REASSIGN_PARTITIONS) is None
    assert (assignment(cluster), state(cluster)) == (({"0": [0]}, {}, {}), (0, [0]))


@pytest.mark.parametrize("data", [b"", b'{"partitions":', b'{"version":1,"partitions":[]}'])
@topic((0,))
async def test_a_node_that_is_no_request_goes_and_harms_nothing(
    data: bytes, cluster: FollowingCluster
) -> None:
    await cluster.controller.session.create(REASSIGN_PARTITIONS, data)
    await cluster.settle()
    assert node(cluster, REASSIGN_PARTITIONS) is None
    assert assignment(cluster) == ({"0": [0]}, {}, {})


@topic((1,), (1,))
async def test_another_controller_goes_on_where_the_last_one_stopped(
    cluster: FollowingCluster,
) -> None:
    slow_down(cluster)
    await ask_by_node(cluster, {T0: (2,)})
    await move(cluster, {T1: (2, 1)})
    cluster.brokers[0].kill()
    await cluster.settle()
    await catch_up(cluster)
    assert assignment(cluster) == ({"0": [2], "1": [2, 1]}, {}, {})
    assert node(cluster, REASSIGN_PARTITIONS) is None


@topic((1,))
async def test_a_move_waits_for_a_broker_that_died_and_goes_on_when_it_is_back(
    cluster: FollowingCluster,
) -> None:
    slow_down(cluster)
    await move(cluster, {T0: (2,)})
    cluster.brokers[2].kill()
    await cluster.settle()
    await catch_up(cluster)
    assert assignment(cluster) == ({"0": [2, 1]}, {"0": [2]}, {"0": [1]})
    await cluster.start(2)
    await cluster.catch_up()
    assert assignment(cluster) == ({"0": [2]}, {}, {})
    assert state(cluster) == (2, [2])


@topic((1,))
async def test_a_move_to_a_broker_that_is_down_begins_when_it_starts(
    cluster: FollowingCluster,
) -> None:
    cluster.brokers[2].kill()
    await cluster.settle()
    await ask_by_node(cluster, {T0: (2,)})
    assert assignment(cluster) == ({"0": [2, 1]}, {"0": [2]}, {"0": [1]})
    await cluster.start(2)
    await cluster.catch_up()
    assert (assignment(cluster), state(cluster)) == (({"0": [2]}, {}, {}), (2, [2]))


@topic((1,))
async def test_a_new_controller_begins_once_what_it_finds_asked_for(
    cluster: FollowingCluster,
) -> None:
    slow_down(cluster)
    data = encode_reassignment({T0: (2,)})
    await cluster.brokers[1].session.create(REASSIGN_PARTITIONS, data)
    cluster.brokers[0].kill()
    await cluster.settle()
    assert assignment(cluster) == ({"0": [2, 1]}, {"0": [2]}, {"0": [1]})
    found = node(cluster, "/brokers/topics/t/partitions/0/state")
    assert found is not None
    assert found["leader_epoch"] == 1


@topic((1,))
async def test_a_new_controller_ends_a_move_whose_target_is_in_sync_already(
    cluster: FollowingCluster,
) -> None:
    slow_down(cluster)
    await move(cluster, {T0: (2, 1)})
    path = "/brokers/topics/t/partitions/0/state"
    data, _ = await cluster.brokers[1].session.get(path)
    assert data is not None
    await cluster.brokers[1].session.set(path, data.replace(b'"isr":[1]', b'"isr":[1,2]'))
    cluster.brokers[0].kill()
    await cluster.settle()
    assert assignment(cluster) == ({"0": [2, 1]}, {}, {})


@topic((0,))
async def test_an_isr_that_a_broker_wrote_by_itself_ends_a_move(cluster: FollowingCluster) -> None:
    slow_down(cluster)
    await move(cluster, {T0: (0, 1)})
    path = "/brokers/topics/t/partitions/0/state"
    data, _ = await cluster.brokers[0].session.get(path)
    assert data is not None
    await cluster.brokers[0].session.set(path, data.replace(b'"isr":[0]', b'"isr":[0,1]'))
    await ZkNotifications(cluster.brokers[0].zk).propagate_isr_changes([T0])
    await cluster.settle()
    assert assignment(cluster) == ({"0": [0, 1]}, {}, {})


@topic((0,), (0,))
async def test_a_move_by_event_leaves_the_node_of_others_as_it_is(
    cluster: FollowingCluster,
) -> None:
    slow_down(cluster)
    await ask_by_node(cluster, {T1: (1,)})
    await move(cluster, {T0: (0, 1)})
    await move(cluster, {T0: None})
    stat = await cluster.controller.session.exists(REASSIGN_PARTITIONS)
    assert stat is not None
    assert stat.version == 0


@topic((0,))
async def test_a_move_turned_elsewhere_drops_what_it_had_begun(cluster: FollowingCluster) -> None:
    slow_down(cluster)
    await move(cluster, {T0: (1,)})
    cluster.told.clear()
    await move(cluster, {T0: (2,)})
    assert assignment(cluster) == ({"0": [2, 0]}, {"0": [2]}, {"0": [0]})
    assert any("broker 1 <- StopReplica t-0" in t and "delete" in t for t in cluster.told)
    await catch_up(cluster)
    assert assignment(cluster) == ({"0": [2]}, {}, {})


@topic((0,))
async def test_a_move_turned_elsewhere_keeps_a_leader(cluster: FollowingCluster) -> None:
    slow_down(cluster)
    await move(cluster, {T0: (2, 1)})
    for broker in cluster.following():
        broker.is_slow = broker.broker_id != 2
    await cluster.catch_up()
    path = "/brokers/topics/t/partitions/0/state"
    data, _ = await cluster.brokers[1].session.get(path)
    assert data is not None
    led_by_2 = data.replace(b'"leader":0', b'"leader":2')
    await cluster.brokers[1].session.set(path, led_by_2)
    await ZkNotifications(cluster.brokers[1].zk).propagate_isr_changes([T0])
    await cluster.settle()
    slow_down(cluster)
    await move(cluster, {T0: (1,)})
    assert state(cluster) == (0, [0])


@topic((0,), (0,))
async def test_a_move_is_called_off(cluster: FollowingCluster) -> None:
    slow_down(cluster)
    await move(cluster, {T0: (1,)})
    assert await move(cluster, {T0: None, T1: None}) == {
        T0: ErrorCode.NONE,
        T1: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    }
    await catch_up(cluster)
    assert assignment(cluster) == ({"0": [0], "1": [0]}, {}, {})
    assert state(cluster) == (0, [0])


@topic((1, 2, 0))
async def test_a_new_controller_drops_who_was_moved_away_and_stayed_in_sync(
    cluster: FollowingCluster,
) -> None:
    """The last one has written the assignment, and not the ISR."""
    name = "/brokers/topics/t"
    shorter = json.dumps({**(node(cluster, name) or {}), "partitions": {"0": [1, 0]}})
    await cluster.controller.session.set(name, shorter.encode())
    assert state(cluster) == (1, [1, 2, 0])
    cluster.told.clear()
    cluster.brokers[0].kill()
    await cluster.settle()

    assert state(cluster) == (1, [1])
    assert "broker 2 <- StopReplica t-0 epoch=1 delete" in cluster.told


@topic((1,))
async def test_a_move_is_not_called_off_when_only_its_target_is_in_sync(
    cluster: FollowingCluster,
) -> None:
    slow_down(cluster)
    await move(cluster, {T0: (2, 0)})
    for broker in cluster.following():
        broker.is_slow = broker.broker_id == 0
    await cluster.catch_up()
    cluster.brokers[1].kill()
    await cluster.settle()
    assert state(cluster) == (2, [2])
    for target in (None, (0,)):
        assert await move(cluster, {T0: target}) == {T0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    assert state(cluster) == (2, [2])
    await catch_up(cluster)
    assert assignment(cluster) == ({"0": [2, 0]}, {}, {})


@topic((0,), (0,))
async def test_the_latest_wish_counts_and_leaves_the_node(cluster: FollowingCluster) -> None:
    slow_down(cluster)
    await ask_by_node(cluster, {T0: (1,), T1: (1,)})
    await move(cluster, {T0: (2,)})
    assert node(cluster, REASSIGN_PARTITIONS) == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 1, "replicas": [1]}],
    }
    await catch_up(cluster)
    assert assignment(cluster) == ({"0": [2], "1": [1]}, {}, {})


@pytest.mark.parametrize("is_one_dead", [False, True])
@topic((0,))
async def test_a_topic_that_moves_can_be_deleted_and_leaves_the_node(
    is_one_dead: bool, cluster: FollowingCluster
) -> None:
    slow_down(cluster)
    await ask_by_node(cluster, {T0: (1, 2)})
    if is_one_dead:
        cluster.brokers[2].kill()
        await cluster.settle()
    await cluster.controller.zk.create_delete_topics(["t"])
    await cluster.settle()
    assert node(cluster, REASSIGN_PARTITIONS) is None
    await catch_up(cluster)
    if is_one_dead:
        assert node(cluster, "/brokers/topics/t") is not None
        await cluster.start(2)
    assert not any(path.startswith("/brokers/topics/t") for path, _, _ in cluster.tree.dump())
    assert not any(broker.replicas for broker in cluster.following())


@topic((0, 2))
async def test_partitions_that_are_not_there_or_going_are_refused(
    cluster: FollowingCluster,
) -> None:
    cluster.brokers[2].kill()
    await cluster.settle()
    await cluster.controller.zk.create_delete_topics(["t"])
    await cluster.settle()
    unknown = TopicPartition("no-such", 0)
    assert await move(cluster, {T0: (1,), unknown: (1,)}) == dict.fromkeys(
        (T0, unknown), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    dead = await move(cluster, {T0: (2, 1, 7)})
    assert dead == {T0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}


@topic((9,))
async def test_a_partition_that_was_never_led_and_is_where_it_should_be_leaves_the_node(
    caplog: pytest.LogCaptureFixture, cluster: FollowingCluster
) -> None:
    await ask_by_node(cluster, {T0: (9,)})
    assert assignment(cluster) == ({"0": [9]}, {}, {})
    assert node(cluster, REASSIGN_PARTITIONS) is None
    assert not [record for record in caplog.records if record.exc_info]


@topic((0,))
async def test_a_move_whose_first_leader_came_with_another_replica_ends(
    cluster: FollowingCluster,
) -> None:
    dead = cluster.brokers[2]
    dead.session.expire()
    await cluster.settle()
    topic = TopicAssignment(topic_id=UUID(int=8), partitions={0: ReplicaAssignment(replicas=(2,))})
    await create_topic(cluster.controller.zk, "u", topic)
    await cluster.settle()
    await ask_by_node(cluster, {TopicPartition("u", 0): (1,)})

    dead.session.renew()
    await cluster.settle()
    await cluster.catch_up()
    await cluster.settle()

    found = node(cluster, "/brokers/topics/u")
    assert found is not None
    assert (found["partitions"], found["adding_replicas"]) == ({"0": [1]}, {})
    assert node(cluster, REASSIGN_PARTITIONS) is None


@topic((0,))
async def test_a_controller_that_reads_anew_drops_moves_of_topics_that_are_going(
    cluster: FollowingCluster,
) -> None:
    slow_down(cluster)
    await ask_by_node(cluster, {T0: (1,)})
    controller = cluster.controller.controller
    for broker in cluster.brokers.values():
        broker.is_reachable = False  # so the deletion does not end
    await cluster.controller.session.create(zk_paths.delete_topic_path("t"))
    controller.queue.rest()
    await cluster.settle()
    controller.queue.drop(lambda event: isinstance(event, events.TopicDeletion))
    controller.read_anew()
    controller.queue.wake()
    await cluster.settle()
    assert node(cluster, REASSIGN_PARTITIONS) is None
