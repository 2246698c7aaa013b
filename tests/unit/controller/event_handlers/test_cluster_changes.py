"""What an active controller does about brokers and topics that come, go and change, also by hand."""

from __future__ import annotations

import logging
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.controller.state_machines import events
from kbroker.controller.state_machines.controller_context import Replica, ReplicaState
from kbroker.errors import ErrorCode
from kbroker.model import ZERO_UUID, EndPoint, ReplicaAssignment, TopicPartition
from kbroker.zk import zk_paths
from kbroker.zk.nodes.zk_notifications import ZkNotifications
from kbroker.zk.tree import NodeTooLargeError
from kbroker.zk.zk_paths import TopicAssignment
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.clusters.controller_cluster import ControllerCluster, FakeBroker
from tests.fakes.running.waiting import until

T0 = TopicPartition("t", 0)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


async def put_topic(
    broker: FakeBroker, name: str, *replicas: tuple[int, ...], topic_id: UUID | None = None
) -> None:
    """Write a topic's node as a tool does."""
    partitions = {p: ReplicaAssignment(replicas=ids) for p, ids in enumerate(replicas)}
    assignment = TopicAssignment(topic_id=topic_id or uuid4(), partitions=partitions)
    path, data = zk_paths.topic_path(name), zk_paths.encode_topic(assignment)
    if await broker.session.exists(path) is None:
        await broker.session.create(path, data)
    else:
        await broker.session.set(path, data)
    await broker.cluster.settle()


def leaders(broker: FakeBroker, topic: str) -> dict[int, int]:
    states = broker.metadata.partition_states(topic)
    return {index: state.leader for index, state in states.items()}


# ---- brokers


async def test_a_changed_rack_or_address_is_announced_without_an_election(
    cluster: ControllerCluster,
) -> None:
    moving = cluster.brokers[1]
    await put_topic(moving, "t", (1,))
    before = cluster.state()
    end_points = (EndPoint(listener_name="PLAINTEXT", host="new", port=1),)
    for changed in (
        replace(moving.registration, rack="r1"),
        replace(moving.registration, end_points=end_points),
    ):
        data = zk_paths.encode_broker(changed, 0)
        await moving.session.set(zk_paths.broker_path(1), data)
        await cluster.settle()
        for broker in cluster.brokers.values():
            known = broker.metadata.broker(1)
            assert known is not None
            assert (known.rack, known.end_points) == (changed.rack, changed.end_points)
    assert cluster.state() == before


async def test_a_broker_whose_node_was_spoilt_by_hand_keeps_its_place(
    cluster: ControllerCluster,
) -> None:
    await put_topic(cluster.brokers[1], "t", (1,))
    before = cluster.state()
    await cluster.brokers[0].session.set(zk_paths.broker_path(1), b"no JSON")
    await cluster.start(2)
    assert cluster.state() == before
    assert [b.broker_id for b in cluster.brokers[2].metadata.alive_brokers()] == [0, 1, 2]


async def test_all_that_a_dead_broker_did_is_forgotten_when_it_comes_back(
    cluster: ControllerCluster,
) -> None:
    context = cluster.brokers[0].controller.context
    assert context is not None
    await put_topic(cluster.brokers[1], "t", (1,))
    await cluster.brokers[0].controller.controlled_shutdown(1)
    context.replicas_on_failed_dirs.add(Replica(T0, 1))
    cluster.brokers[1].kill()
    await cluster.settle()
    assert leaders(cluster.brokers[0], "t") == {0: -1}
    await cluster.start(1)
    assert context.shutting_down == set()
    assert context.replicas_on_failed_dirs == set()
    assert leaders(cluster.brokers[0], "t") == {0: 1}


async def test_a_broker_out_of_reach_is_told_all_it_missed(cluster: ControllerCluster) -> None:
    lost = cluster.brokers[1]
    lost.is_reachable = False
    for number in range(30):
        await put_topic(cluster.brokers[0], f"t{number}", (0,), (1,))
    await cluster.brokers[0].zk.create_delete_topics(["t7"])
    await cluster.settle()
    assert lost.missed
    assert not lost.metadata.contains_topic("t0")
    lost.is_reachable = True
    expected = {f"t{number}" for number in range(30) if number != 7}
    await until(lambda: set(lost.metadata.topics()) == expected)
    await cluster.settle()
    assert await cluster.brokers[0].zk.topic_deletions() == []


@pytest.mark.parametrize("topic", ["t", None])
@pytest.mark.parametrize("brokers", [3])
async def test_unclean_elections_are_held_as_soon_as_they_are_allowed(
    topic: str | None, cluster: ControllerCluster
) -> None:
    controller = cluster.brokers[0]
    for name in ("t", "other"):
        await put_topic(controller, name, (1, 2))
    cluster.brokers[1].kill()
    await cluster.settle()
    await cluster.start(1)  # no longer in sync
    cluster.brokers[2].kill()
    await cluster.settle()
    before = [leaders(controller, name) for name in ("t", "other")]
    if topic is None:
        cluster.unclean_by_default = True
    else:
        path = zk_paths.config_path(zk_paths.TOPIC_CONFIGS, topic)
        overrides = zk_paths.encode_config({"unclean.leader.election.enable": "true"})
        await controller.session.create(path, overrides)
    controller.controller.enable_unclean_elections(topic)
    await cluster.settle()
    assert before == [{0: -1}, {0: -1}]
    assert leaders(controller, "t") == {0: 1}
    assert leaders(controller, "other") == ({0: 1} if topic is None else {0: -1})


# ---- log directories


async def test_a_broker_that_lost_a_directory_leads_its_partitions_no_longer_until_it_works(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[1]
    await put_topic(broker, "t", (1,), (1,), (1, 0))
    broker.failed_replicas = {T0, TopicPartition("t", 2)}
    await ZkNotifications(broker.zk).propagate_log_dir_event(1)
    await cluster.settle()
    assert leaders(cluster.brokers[0], "t") == {0: -1, 1: 1, 2: 0}
    offline = cluster.brokers[0].metadata.partition_states("t")[0].offline_replicas
    assert offline == [1]
    described = cluster.brokers[0].metadata.describe_topic("t", 9, "PLAINTEXT")
    assert described is not None
    assert described.partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE

    cluster.brokers.pop(1)
    broker.failed_replicas = set()
    await broker.controller.shutdown()
    broker.session.expire()
    await cluster.settle()
    await cluster.start(1)
    assert leaders(cluster.brokers[0], "t") == {0: 1, 1: 1, 2: 0}
    await broker.stop()


@pytest.mark.parametrize("known", [(), (T0,)], ids=["first answer", "first answer lost"])
async def test_a_replica_counts_again_when_its_broker_has_the_order(
    cluster: ControllerCluster, known: tuple[TopicPartition, ...]
) -> None:
    broker = cluster.brokers[1]
    await put_topic(broker, "t", (1, 0))
    broker.failed_replicas = {T0}
    await ZkNotifications(broker.zk).propagate_log_dir_event(1)
    await cluster.settle()
    assert cluster.brokers[0].metadata.partition_states("t")[0].offline_replicas == [1]

    broker.failed_replicas, broker.known_orders = set(), set(known)
    await ZkNotifications(broker.zk).propagate_log_dir_event(1)
    await cluster.settle()

    assert cluster.brokers[0].metadata.partition_states("t")[0].offline_replicas == []


async def test_a_topic_made_where_no_log_could_be_made_is_led_once_it_can(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[1]
    broker.failed_replicas = {T0}
    await put_topic(broker, "t", (1,))
    assert leaders(broker, "t") == {0: -1}
    broker.failed_replicas = set()
    await ZkNotifications(broker.zk).propagate_log_dir_event(1)
    await cluster.settle()
    assert leaders(broker, "t") == {0: 1}


async def test_news_from_before_a_reign_is_cleared_away(cluster: ControllerCluster) -> None:
    news = ZkNotifications(cluster.brokers[1].zk)
    cluster.brokers[0].session.suspend()
    await news.propagate_log_dir_event(1)
    await news.propagate_isr_changes([T0])
    cluster.brokers[0].session.expire()
    await cluster.settle()
    assert cluster.brokers[1].controller.is_active
    assert await news.log_dir_events() == ([], frozenset())
    assert await news.isr_changes() == ([], frozenset())


# ---- topics


async def test_partitions_added_by_hand_are_led_and_replicas_changed_by_hand_are_not_taken_over(
    cluster: ControllerCluster,
) -> None:
    topic_id = uuid4()
    await put_topic(cluster.brokers[0], "t", (0,), topic_id=topic_id)
    await put_topic(cluster.brokers[0], "t", (1,), (1,), topic_id=topic_id)
    assert leaders(cluster.brokers[0], "t") == {0: 0, 1: 1}
    context = cluster.brokers[0].controller.context
    assert context is not None
    assert context.assignment(T0).replicas == (0,)


async def test_a_topic_id_lost_to_an_old_tool_is_written_back(cluster: ControllerCluster) -> None:
    broker, topic_id = cluster.brokers[0], uuid4()
    await put_topic(broker, "t", (0,), topic_id=topic_id)
    old = b'{"version":1,"partitions":{"0":[0],"1":[1]}}'
    await broker.session.set(zk_paths.topic_path("t"), old)
    await cluster.settle()
    assignment = await broker.zk.topic_assignment("t")
    assert assignment is not None
    assert assignment.topic_id == topic_id
    assert leaders(broker, "t") == {0: 0, 1: 1}


async def test_a_topic_removed_and_made_anew_by_hand_is_another_topic(
    cluster: ControllerCluster,
) -> None:
    broker, second = cluster.brokers[0], uuid4()
    await put_topic(broker, "t", (0,), (0,))
    broker.controller.queue.rest()  # so that nobody reads the tree in between
    for partition in (0, 1):
        await broker.session.delete(f"/brokers/topics/t/partitions/{partition}/state")
        await broker.session.delete(f"/brokers/topics/t/partitions/{partition}")
    await broker.session.delete("/brokers/topics/t/partitions")
    await broker.session.delete("/brokers/topics/t")
    await put_topic(broker, "t", (1,), topic_id=second)
    broker.controller.queue.wake()
    await cluster.settle()
    assert leaders(broker, "t") == {0: 1}
    assert broker.metadata.topic_id("t") == second


async def test_a_new_topic_whose_states_are_there_already_is_led_as_they_say(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[0]
    broker.controller.queue.rest()
    await put_topic(broker, "t", (0, 1))
    state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":6,"isr":[1]}'
    await broker.session.create("/brokers/topics/t/partitions/0/state", state, make_parents=True)
    broker.controller.queue.wake()
    await cluster.settle()
    assert leaders(broker, "t") == {0: 1}
    assert broker.metadata.partition_states("t")[0].leader_epoch == 7


async def test_a_topic_whose_node_has_no_room_for_an_id_is_led_without_one(
    monkeypatch: pytest.MonkeyPatch, cluster: ControllerCluster
) -> None:
    async def too_large(_zk: ZkUtils, topic: str, *_: object) -> None:
        raise NodeTooLargeError(zk_paths.topic_path(topic))

    monkeypatch.setattr(ZkUtils, "set_topic_assignment", too_large)
    broker = cluster.brokers[0]
    old = b'{"version":1,"partitions":{"0":[0]}}'
    await broker.session.create(zk_paths.topic_path("t"), old)
    await cluster.settle()
    assert leaders(broker, "t") == {0: 0}
    assert broker.metadata.topic_id("t") == ZERO_UUID


async def test_a_broker_that_is_named_twice_counts_once(cluster: ControllerCluster) -> None:
    topic_id = uuid4()
    await put_topic(cluster.brokers[0], "t", (1, 1, 0), topic_id=topic_id)
    await put_topic(cluster.brokers[0], "t", (1, 1, 0), (0, 0), topic_id=topic_id)
    states = cluster.brokers[0].metadata.partition_states("t")
    assert [(s.leader, s.isr, s.replicas) for s in states.values()] == [
        (1, [1, 0], [1, 0]),
        (0, [0], [0]),
    ]


async def test_a_topic_on_no_living_broker_is_led_when_one_comes(
    cluster: ControllerCluster,
) -> None:
    await put_topic(cluster.brokers[0], "t", (2,))
    assert leaders(cluster.brokers[0], "t") == {}
    await cluster.start(2)
    assert leaders(cluster.brokers[0], "t") == {0: 2}


# ---- deletion


@pytest.mark.parametrize(
    "config", [KafkaConfig.for_profile("dev", {"delete.topic.enable": "false"})]
)
async def test_where_deletion_is_not_allowed_a_wish_is_removed_and_the_topic_stays(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[0]
    await put_topic(broker, "t", (0,))
    await broker.zk.create_delete_topics(["t"])
    await cluster.settle()
    assert await broker.zk.topic_deletions() == []
    assert leaders(broker, "t") == {0: 0}

    # Also a wish from before this controller's reign.
    cluster.brokers[0].session.suspend()
    await cluster.brokers[1].zk.create_delete_topics(["t"])
    cluster.brokers[0].session.expire()
    await cluster.settle()
    assert await cluster.brokers[1].zk.topic_deletions() == []
    assert await cluster.brokers[1].zk.existing_topics(["t"])


@pytest.mark.parametrize("brokers", [3])
async def test_a_deletion_that_waits_for_a_dead_broker_goes_on_under_a_new_controller(
    cluster: ControllerCluster,
) -> None:
    await put_topic(cluster.brokers[0], "t", (2, 0), (1,))
    cluster.brokers[2].kill()
    await cluster.settle()
    await cluster.brokers[1].zk.create_delete_topics(["t"])
    await cluster.settle()
    assert await cluster.brokers[1].zk.existing_topics(["t"])
    cluster.brokers[0].kill()
    await cluster.settle()
    assert cluster.brokers[1].controller.is_active
    assert await cluster.brokers[1].zk.topic_deletions() == ["t"]
    await cluster.start(2)
    await cluster.start(0)
    assert not await cluster.brokers[1].zk.existing_topics(["t"])
    assert await cluster.brokers[1].zk.topic_deletions() == []


async def test_a_topic_that_is_deleted_does_not_grow(cluster: ControllerCluster) -> None:
    broker, topic_id = cluster.brokers[0], uuid4()
    broker.refuse_deletion = True
    await put_topic(broker, "t", (0,), topic_id=topic_id)
    await broker.zk.create_delete_topics(["t"])
    await cluster.settle()
    await put_topic(broker, "t", (0,), (1,), topic_id=topic_id)
    assignment = await broker.zk.topic_assignment("t")
    assert assignment is not None
    assert set(assignment.partitions) == {0}


async def test_a_topic_removed_by_hand_while_its_deletion_waits_leaves_no_wish(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[0]
    broker.refuse_deletion = True
    await put_topic(broker, "t", (0,))
    await broker.zk.create_delete_topics(["t"])
    await cluster.settle()
    context = broker.controller.context
    assert context is not None
    assert context.replica_state(Replica(T0, 0)) is not ReplicaState.NON_EXISTENT
    await broker.session.delete("/brokers/topics/t/partitions/0/state")
    await broker.session.delete("/brokers/topics/t/partitions/0")
    await broker.session.delete("/brokers/topics/t/partitions")
    await broker.session.delete("/brokers/topics/t")
    await cluster.settle()
    assert await broker.zk.topic_deletions() == []
    assert "t" not in context.assignments
    assert context.replica_state(Replica(T0, 0)) is ReplicaState.NON_EXISTENT


async def test_a_controller_without_work_is_not_disturbed_by_events_of_no_consequence(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[0]
    await put_topic(broker, "t", (0,))
    cluster.requests.clear()
    for event in (
        events.BrokerChange(),
        events.BrokerModifications(1),
        events.TopicChange(),
        events.PartitionModifications("t"),
        events.PartitionModifications("no-such"),
        events.TopicDeletion(),
        events.LogDirEventNotification(),
        events.IsrChangeNotification(),
    ):
        broker.controller.queue.put(event)
    await cluster.settle()
    assert cluster.requests == []
