"""A controller that has been replaced changes nothing any more, in the tree or on a broker, and
brokers of an earlier life count for nothing.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from uuid import uuid4

import pytest

from kbroker.controller import kafka_controller
from kbroker.controller.channels.controller_responses import event_of_response
from kbroker.controller.state_machines import events
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kbroker.zk import zk_paths
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.clusters.controller_cluster import ControllerCluster, FakeBroker


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(kafka_controller, "GIVE_UP_BACKOFF_S", 0.0)
    monkeypatch.setattr(kafka_controller, "RETRY_BACKOFF_S", 0.0)
    caplog.set_level(logging.CRITICAL)


@pytest.fixture
def brokers() -> int:
    return 3


async def create(broker: FakeBroker, name: str, *replicas: int) -> None:
    assignment = TopicAssignment(
        topic_id=uuid4(), partitions={0: ReplicaAssignment(replicas=replicas)}
    )
    await broker.session.create(zk_paths.topic_path(name), zk_paths.encode_topic(assignment))


async def pause(cluster: ControllerCluster, broker: FakeBroker) -> None:
    """The process stands still (SIGSTOP) until its ephemeral nodes have gone; it knows nothing."""
    broker.controller.queue.rest()
    for path in (zk_paths.CONTROLLER, zk_paths.broker_path(broker.broker_id)):
        await cluster.brokers[2].session.delete(path)
    await cluster.settle()


async def test_a_controller_that_was_paused_writes_nothing_afterwards(
    cluster: ControllerCluster,
) -> None:
    zombie = cluster.brokers[0]
    await pause(cluster, zombie)
    assert zombie.controller.is_active  # or so it thinks
    await create(cluster.brokers[1], "t", 1, 2)
    await cluster.settle()
    before = cluster.state()
    # Its first event is one that makes it write: a broker has gone, as far as it can see.
    zombie.controller.queue.drop(lambda _: True)
    cluster.brokers[2].kill()
    zombie.controller.queue.put(events.TopicChange())
    zombie.controller.queue.put(events.BrokerChange())
    zombie.controller.queue.wake()
    await cluster.settle()

    assert len(before) == 1
    reign = cluster.controller.controller.epoch
    assert reign > 1
    assert not zombie.controller.is_active
    assert all(f'"controller_epoch":{reign}' in state for state in cluster.state())


async def test_requests_a_paused_controller_had_queued_are_refused_and_end_its_reign(
    cluster: ControllerCluster,
) -> None:
    zombie = cluster.brokers[0]
    await create(zombie, "t", 1)
    await cluster.settle()
    assert zombie.controller.context is not None
    await pause(cluster, zombie)
    new = cluster.controller.controller.epoch if cluster.brokers.pop(0) else 0
    zombie.controller.queue.drop(lambda _: True)
    zombie.controller.queue.wake()
    cluster.requests.clear()
    # It tells all brokers, itself among them, of one that has changed, and writes nothing.
    changed = replace(cluster.brokers[2].registration, rack="r1")
    await cluster.brokers[2].session.set(
        zk_paths.broker_path(2), zk_paths.encode_broker(changed, 0)
    )
    zombie.controller.queue.put(events.BrokerModifications(2))
    await cluster.settle()
    cluster.brokers[0] = zombie

    told = [broker_id for broker_id, r in cluster.requests if r.controller_epoch < new]
    assert sorted(told) == [0, 1, 2]
    assert not zombie.controller.is_active
    assert zombie.controller.controller_id == cluster.controller.broker_id


async def test_a_broker_that_knows_a_higher_epoch_than_the_tree_is_outdone(
    cluster: ControllerCluster,
) -> None:
    """As after /controller_epoch was set back by hand."""
    cluster.brokers[1].controller_epoch = 4
    await create(cluster.brokers[0], "t", 1)
    for _ in range(10):
        await asyncio.sleep(0.001)
        await cluster.settle()
    assert cluster.controller.controller.epoch >= 4
    assert cluster.brokers[1].metadata.contains_topic("t")


async def test_an_epoch_set_back_by_hand_is_seen_from_the_states_of_partitions(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[0]
    await broker.session.set(zk_paths.CONTROLLER_EPOCH, b"70")
    await create(broker, "t", 1)
    await cluster.settle()
    assert cluster.controller.controller.epoch == 71
    await broker.session.set(zk_paths.CONTROLLER_EPOCH, b"3")
    cluster.controller.kill()
    for _ in range(5):
        await asyncio.sleep(0.001)
        await cluster.settle()
    epochs = {request.controller_epoch for _, request in cluster.requests}
    assert cluster.controller.controller.epoch == 72
    assert not any(epoch in epochs for epoch in range(4, 70))


async def test_every_request_carries_the_epoch_of_the_broker_it_is_for(
    cluster: ControllerCluster,
) -> None:
    await create(cluster.brokers[0], "t", 1, 2)
    await cluster.settle()
    await cluster.brokers[0].zk.create_delete_topics(["t"])
    await cluster.settle()
    kinds = {type(request) for _, request in cluster.requests}
    assert kinds == {LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest}
    for broker_id, request in cluster.requests:
        assert request.broker_epoch == cluster.brokers[broker_id].broker_epoch > 0


async def test_an_answer_to_an_earlier_reign_is_ignored(cluster: ControllerCluster) -> None:
    await create(cluster.brokers[0], "t", 1)
    await cluster.settle()
    await cluster.brokers[0].session.delete(zk_paths.CONTROLLER)
    await cluster.settle()
    before = cluster.state()
    old = leader_and_isr(T0)
    old.controller_epoch, old.broker_epoch = 1, cluster.brokers[1].broker_epoch
    refusals = LeaderAndIsrResponse.LeaderAndIsrTopicError(
        topic_id=old.topic_states[0].topic_id,
        partition_errors=[
            LeaderAndIsrResponse.LeaderAndIsrPartitionError(
                partition_index=0, error_code=ErrorCode.KAFKA_STORAGE_ERROR
            )
        ],
    )
    for late in (LeaderAndIsrResponse(error_code=11), LeaderAndIsrResponse(topics=[refusals])):
        for broker in cluster.brokers.values():
            broker.controller.on_response(1, old, late)
        await cluster.settle()
    assert cluster.controller.controller.epoch == 2
    assert cluster.state() == before


async def test_a_controlled_shutdown_for_an_earlier_life_is_refused(
    cluster: ControllerCluster,
) -> None:
    controller = cluster.brokers[0].controller
    epoch = cluster.brokers[1].broker_epoch
    for wrong, code in (
        ((1, epoch - 1), ErrorCode.STALE_BROKER_EPOCH),
        ((7, 1), ErrorCode.BROKER_NOT_AVAILABLE),
    ):
        with pytest.raises(KafkaError) as refused:
            await controller.controlled_shutdown(*wrong)
        assert refused.value.code is code
    assert controller.context is not None
    assert controller.context.shutting_down == set()
    assert await controller.controlled_shutdown(1, epoch) == []
    assert await controller.controlled_shutdown(2) == []  # no epoch given
    assert controller.context.shutting_down == {1, 2}


async def test_a_broker_that_is_not_controller_refuses_a_controlled_shutdown(
    cluster: ControllerCluster,
) -> None:
    with pytest.raises(KafkaError) as refused:
        await cluster.brokers[1].controller.controlled_shutdown(1)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def test_partitions_nobody_else_can_lead_are_named_and_lone_ones_are_not(
    cluster: ControllerCluster,
) -> None:
    controller = cluster.brokers[0]
    for name, *replicas in (("shared", 1, 2), ("lone", 1)):
        await create(controller, name, *replicas)
    await cluster.settle()
    cluster.brokers[2].kill()  # leaves the ISR
    await cluster.settle()
    left = await controller.controller.controlled_shutdown(1)
    assert left == [TopicPartition("shared", 0)]


def leader_and_isr(*partitions: TopicPartition) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        controller_epoch=3,
        topic_states=[
            LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name=partition.topic, topic_id=uuid4())
            for partition in partitions
        ],
    )


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize("by_name", [False, True])
def test_an_answer_says_which_replicas_work(by_name: bool) -> None:
    request = leader_and_isr(T0)
    codes = {0: ErrorCode.KAFKA_STORAGE_ERROR, 1: ErrorCode.NONE, 2: ErrorCode.UNKNOWN_SERVER_ERROR}
    errors = [
        LeaderAndIsrResponse.LeaderAndIsrPartitionError(
            topic_name="t" if by_name else "", partition_index=index, error_code=code
        )
        for index, code in codes.items()
    ]
    response = LeaderAndIsrResponse()
    if by_name:  # before version 5
        response.partition_errors = errors
    else:
        topic_id = request.topic_states[0].topic_id
        response.topics = [
            LeaderAndIsrResponse.LeaderAndIsrTopicError(topic_id=topic_id, partition_errors=errors)
        ]
    event = event_of_response(1, request, response)
    assert event == events.LeaderAndIsrResponseReceived(1, -1, frozenset({T0}), frozenset({T1}))


@pytest.mark.parametrize(
    ("request_type", "response"),
    [
        (LeaderAndIsrRequest, LeaderAndIsrResponse(error_code=11)),
        (UpdateMetadataRequest, UpdateMetadataResponse(error_code=11)),
        (StopReplicaRequest, StopReplicaResponse(error_code=11)),
    ],
)
def test_a_stale_epoch_in_any_answer_ends_the_reign(request_type, response) -> None:
    request = request_type(controller_epoch=3)
    assert event_of_response(1, request, response) == events.ControllerFenced(3)


def test_a_refused_request_of_an_earlier_life_of_the_broker_says_nothing_of_its_replicas() -> None:
    response = LeaderAndIsrResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert event_of_response(1, leader_and_isr(T0), response) is None


def test_all_replicas_of_a_refused_deletion_have_failed() -> None:
    states = [
        StopReplicaRequest.StopReplicaPartitionState(partition_index=index, delete_partition=delete)
        for index, delete in ((0, True), (1, False))
    ]
    topic = StopReplicaRequest.StopReplicaTopicState(topic_name="t", partition_states=states)
    request = StopReplicaRequest(controller_epoch=3, topic_states=[topic])
    response = StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    event = event_of_response(1, request, response)
    assert event == events.TopicDeletionStopReplicaResponseReceived(
        1, -1, frozenset(), frozenset({T0})
    )


async def test_a_replaced_controller_that_reads_the_cluster_anew_is_no_controller_any_more(
    caplog: pytest.LogCaptureFixture, cluster: ControllerCluster
) -> None:
    await create(cluster.brokers[0], "t", 1)
    await cluster.settle()
    old = cluster.brokers[0]
    await pause(cluster, old)
    assert cluster.brokers[1].controller.epoch or cluster.brokers[2].controller.epoch
    await create(cluster.brokers[1], "u", 1)
    await cluster.settle()  # its state has the new controller's epoch
    caplog.set_level(logging.ERROR)

    old.controller.read_anew()
    old.controller.queue.wake()
    await cluster.settle()

    assert not old.controller.is_active
    assert not caplog.records
