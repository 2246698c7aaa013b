from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from kbroker.errors import ErrorCode, ProtocolError
from kbroker.model import TopicPartition
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kbroker.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kbroker.replication.controller_requests import controller_requests
from kbroker.replication.controller_requests.controller_requests import ControlRequests
from kbroker.zk.tree import TreeUnavailableError
from tests.fakes.running.loop_turns import counting_turns

PARTITIONS = 50
OWN_EPOCH = 40
PartitionState = LeaderAndIsrRequest.LeaderAndIsrPartitionState
TopicState = LeaderAndIsrRequest.LeaderAndIsrTopicState


class CountingReplicas:
    """Answers what it is asked, and notes of whom, how many partitions, and for what."""

    def __init__(self) -> None:
        self.controller_epoch = 0
        self.sizes: list[int] = []
        self.epochs: list[int] = []
        self.led: list[tuple[str, int]] = []
        self.stopped: list[tuple[str, int, int, bool]] = []
        self.undeleted: frozenset[TopicPartition] = frozenset()
        self.metadata: list[UpdateMetadataRequest] = []

    def holds_another(self, _topic: object) -> bool:
        return False

    def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        self._note(request)
        whole = LeaderAndIsrResponse()
        for topic in request.topic_states:
            errors = [
                LeaderAndIsrResponse.LeaderAndIsrPartitionError(
                    topic_name=topic.topic_name, partition_index=state.partition_index
                )
                for state in topic.partition_states
            ]
            self.led += [(topic.topic_name, s.partition_index) for s in topic.partition_states]
            self.sizes.append(len(errors))
            whole.partition_errors += errors
            whole.topics.append(
                LeaderAndIsrResponse.LeaderAndIsrTopicError(partition_errors=errors)
            )
        return whole

    async def finish_deletions(self) -> frozenset[TopicPartition]:
        return self.undeleted

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        self._note(request)
        whole = StopReplicaResponse()
        for topic in request.topic_states:
            self.sizes.append(len(topic.partition_states))
            for state in topic.partition_states:
                self.stopped.append(
                    (
                        topic.topic_name,
                        state.partition_index,
                        state.leader_epoch,
                        state.delete_partition,
                    )
                )
                whole.partition_errors.append(
                    StopReplicaResponse.StopReplicaPartitionError(
                        topic_name=topic.topic_name, partition_index=state.partition_index
                    )
                )
        return whole

    def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        self._note(request)
        self.metadata.append(request)
        return UpdateMetadataResponse()

    def _note(self, request: Any) -> None:
        self.controller_epoch = request.controller_epoch
        self.epochs.append(request.controller_epoch)


async def nothing(_asked: object) -> None:
    return None


def control_of(
    replicas: Any, load: Callable[[Iterable[TopicPartition]], Awaitable[None]] = nothing
) -> ControlRequests:
    return ControlRequests(replicas, replicas, MetadataWaiter(), load, lambda: OWN_EPOCH, nothing)


async def send(replicas: Any, request: Any) -> tuple[Any, int]:
    """The answer, and how often others had a turn of the loop meanwhile."""
    return await counting_turns(control_of(replicas).send(request))


def received(request: Any, version: int) -> Any:
    """The request as it comes over the wire in that version."""
    return decode(type(request), version, encode(request, version))[0]


def leader_and_isr(epoch: int = 1, topic: str = "t", partitions: int = 1, **fields: Any) -> Any:
    states = [PartitionState(partition_index=index) for index in range(partitions)]
    return LeaderAndIsrRequest(
        controller_epoch=epoch,
        topic_states=[TopicState(topic_name=topic, partition_states=states)],
        **fields,
    )


def stop_replica(epoch: int = 1, topic: str = "t", partitions: int = 1, **fields: Any) -> Any:
    states = [
        StopReplicaRequest.StopReplicaPartitionState(partition_index=index)
        for index in range(partitions)
    ]
    topic_state = StopReplicaRequest.StopReplicaTopicState(
        topic_name=topic, partition_states=states
    )
    return StopReplicaRequest(controller_epoch=epoch, topic_states=[topic_state], **fields)


def update_metadata(epoch: int = 1, topic: str = "t", **fields: Any) -> Any:
    state = UpdateMetadataRequest.UpdateMetadataPartitionState()
    topic_state = UpdateMetadataRequest.UpdateMetadataTopicState(
        topic_name=topic, partition_states=[state]
    )
    return UpdateMetadataRequest(controller_epoch=epoch, topic_states=[topic_state], **fields)


ALL_KINDS = [leader_and_isr, stop_replica, update_metadata]


async def test_many_partitions_are_led_in_slices_and_answered_as_one() -> None:
    replicas = CountingReplicas()

    answer, turns = await send(replicas, leader_and_isr(partitions=PARTITIONS))

    assert [e.partition_index for e in answer.partition_errors] == list(range(PARTITIONS))
    assert [len(topic.partition_errors) for topic in answer.topics] == [PARTITIONS]
    assert max(replicas.sizes) < 10
    assert turns >= len(replicas.sizes)


async def test_many_partitions_are_stopped_in_slices_and_answered_as_one() -> None:
    replicas = CountingReplicas()

    answer, turns = await send(replicas, stop_replica(partitions=PARTITIONS))

    assert [e.partition_index for e in answer.partition_errors] == list(range(PARTITIONS))
    assert max(replicas.sizes) < 10
    assert turns >= len(replicas.sizes)


async def test_a_deletion_that_is_not_on_the_disk_is_not_answered_as_one() -> None:
    replicas = CountingReplicas()
    named = StopReplicaRequest.StopReplicaPartitionV0
    request = StopReplicaRequest(
        controller_epoch=1,
        delete_partitions=True,
        ungrouped_partitions=[named(topic_name="a"), named(topic_name="b", partition_index=2)],
    )
    replicas.undeleted = frozenset({TopicPartition("b", 2)})

    answer, _ = await send(replicas, received(request, 0))

    codes = [e.error_code for e in answer.partition_errors]
    assert codes == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]


@pytest.mark.parametrize("request_of", ALL_KINDS)
async def test_a_request_for_an_earlier_life_of_the_broker_is_refused(request_of: Any) -> None:
    replicas = CountingReplicas()

    answer, _ = await send(replicas, request_of(broker_epoch=OWN_EPOCH - 1))

    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert replicas.epochs == []


@pytest.mark.parametrize("request_of", ALL_KINDS)
async def test_a_broker_that_has_not_registered_yet_waits_before_it_compares_epochs(
    request_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_requests, "REGISTRATION_LOOK_S", 0)
    replicas, epochs = CountingReplicas(), [-1, -1, OWN_EPOCH]
    own_epoch = lambda: epochs.pop(0)  # noqa: E731
    control = ControlRequests(replicas, replicas, MetadataWaiter(), nothing, own_epoch, nothing)  # type: ignore[arg-type]

    answer = await control.send(request_of(broker_epoch=OWN_EPOCH - 1))

    assert (answer.error_code, replicas.epochs) == (ErrorCode.STALE_BROKER_EPOCH, [])


@pytest.mark.parametrize("request_of", ALL_KINDS)
@pytest.mark.parametrize("epoch", [-1, OWN_EPOCH, OWN_EPOCH + 1])
async def test_no_broker_epoch_our_own_and_one_we_do_not_know_yet_are_taken(
    request_of: Any, epoch: int
) -> None:
    replicas = CountingReplicas()

    answer, _ = await send(replicas, request_of(broker_epoch=epoch))

    assert (answer.error_code, set(replicas.epochs)) == (ErrorCode.NONE, {1})


@pytest.mark.parametrize("request_of", ALL_KINDS)
async def test_a_controller_that_was_replaced_is_refused(request_of: Any) -> None:
    replicas = CountingReplicas()
    replicas.controller_epoch = 2

    answer, _ = await send(replicas, request_of(epoch=1))

    assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert replicas.epochs == []


@pytest.mark.parametrize("version", range(8))
async def test_a_refused_leader_and_isr_names_its_partitions(version: int) -> None:
    request = leader_and_isr(broker_epoch=OWN_EPOCH - 1, partitions=3)

    sent, _ = await send(CountingReplicas(), request)
    answer = received(sent, version)

    topics = [error for topic in answer.topics for error in topic.partition_errors]
    errors = topics if version >= 5 else answer.partition_errors
    assert [(e.partition_index, e.error_code) for e in errors] == [
        (index, ErrorCode.STALE_BROKER_EPOCH) for index in range(3)
    ]


@pytest.mark.parametrize("kind", [LeaderAndIsrRequest, StopReplicaRequest])
async def test_a_request_without_partitions_makes_its_controller_known(kind: Any) -> None:
    replicas = CountingReplicas()

    await send(replicas, kind(controller_epoch=7))

    assert replicas.controller_epoch == 7


async def test_what_a_newer_controller_says_does_not_mix_with_the_one_before() -> None:
    replicas = CountingReplicas()

    control = control_of(replicas)

    answers = await asyncio.gather(
        control.leader_and_isr(leader_and_isr(epoch=1, partitions=PARTITIONS)),
        control.stop_replica(stop_replica(epoch=2, partitions=PARTITIONS)),
        control.update_metadata(update_metadata(epoch=2)),
        control.leader_and_isr(leader_and_isr(epoch=1)),
    )

    assert replicas.epochs == sorted(replicas.epochs)
    assert [answer.error_code for answer in answers] == [0, 0, 0, ErrorCode.STALE_CONTROLLER_EPOCH]
    assert len(replicas.led) == PARTITIONS


@pytest.mark.parametrize("late_kind", ["update_metadata", "leader_and_isr", "stop_replica"])
async def test_what_comes_by_a_connection_that_was_given_up_ends_it(late_kind: str) -> None:
    requests = {
        "update_metadata": update_metadata(epoch=1),
        "leader_and_isr": leader_and_isr(epoch=1),
        "stop_replica": stop_replica(epoch=1),
    }
    replicas = CountingReplicas()
    control = control_of(replicas)
    assert (await control.update_metadata(update_metadata(epoch=1), 8)).error_code == 0
    before = list(replicas.epochs)

    with pytest.raises(ProtocolError, match="older than its controller's latest"):
        await getattr(control, late_kind)(requests[late_kind], 7)

    assert replicas.epochs == before
    own = await getattr(control, late_kind)(requests[late_kind])
    assert own.error_code == 0, "the controller of this process has no connection to give up"
    newer = await control.update_metadata(update_metadata(epoch=2), 3)
    assert newer.error_code == 0, "of another controller any connection counts"


async def test_settings_are_read_before_logs_are_made_and_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller_requests, "TREE_BACKOFF_S", 0)
    replicas = CountingReplicas()
    log: list[Any] = []

    async def load(partitions: Iterable[TopicPartition]) -> None:
        log.append((list(partitions), len(replicas.led)))
        if len(log) < 3:
            raise TreeUnavailableError("/config/topics/t")

    answer = await control_of(replicas, load).send(leader_and_isr())

    assert log == [([TopicPartition("t", 0)], 0)] * 3
    assert (answer.error_code, replicas.led) == (ErrorCode.NONE, [("t", 0)])


async def test_a_broker_that_registers_anew_while_it_waits_refuses_what_it_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller_requests, "TREE_BACKOFF_S", 0)
    replicas, epochs = CountingReplicas(), [OWN_EPOCH, OWN_EPOCH + 1]

    async def load(_partitions: Iterable[TopicPartition]) -> None:
        raise TreeUnavailableError("/config/topics/t")

    own_epoch = lambda: epochs.pop(0)  # noqa: E731
    control = ControlRequests(replicas, replicas, MetadataWaiter(), load, own_epoch, nothing)  # type: ignore[arg-type]
    answer = await control.send(leader_and_isr(broker_epoch=OWN_EPOCH))

    assert (answer.error_code, replicas.led) == (ErrorCode.STALE_BROKER_EPOCH, [])


async def test_nothing_is_read_for_a_request_that_is_refused() -> None:
    async def load(_partitions: Iterable[TopicPartition]) -> None:
        raise AssertionError("settings were read")

    control = control_of(CountingReplicas(), load)
    answer = await control.send(leader_and_isr(broker_epoch=OWN_EPOCH - 1))

    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("version", range(2))
async def test_partitions_of_an_old_leader_and_isr_are_led(version: int) -> None:
    replicas = CountingReplicas()
    request = LeaderAndIsrRequest(
        controller_epoch=1,
        ungrouped_partition_states=[
            PartitionState(topic_name="a", partition_index=0),
            PartitionState(topic_name="b", partition_index=0),
            PartitionState(topic_name="a", partition_index=1),
        ],
    )

    answer, _ = await send(replicas, received(request, version))

    assert sorted(replicas.led) == [("a", 0), ("a", 1), ("b", 0)]
    named = [(e.topic_name, e.partition_index) for e in received(answer, version).partition_errors]
    assert sorted(named) == sorted(replicas.led)


async def test_partitions_of_the_oldest_stop_replica_are_stopped() -> None:
    replicas = CountingReplicas()
    named = StopReplicaRequest.StopReplicaPartitionV0
    request = StopReplicaRequest(
        controller_epoch=1,
        delete_partitions=True,
        ungrouped_partitions=[named(topic_name="a"), named(topic_name="b", partition_index=2)],
    )

    await send(replicas, received(request, 0))

    assert replicas.stopped == [("a", 0, -1, True), ("b", 2, -1, True)]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("delete", [False, True])
async def test_topics_of_an_old_stop_replica_are_stopped(version: int, delete: bool) -> None:
    replicas = CountingReplicas()
    topic = StopReplicaRequest.StopReplicaTopicV1(name="a", partition_indexes=[0, 3])
    request = StopReplicaRequest(controller_epoch=1, delete_partitions=delete, topics=[topic])

    await send(replicas, received(request, version))

    assert replicas.stopped == [("a", 0, -1, delete), ("a", 3, -1, delete)]


async def test_brokers_of_the_oldest_update_metadata_have_an_end_point() -> None:
    replicas = CountingReplicas()
    live = UpdateMetadataRequest.UpdateMetadataBroker(id=4, v0_host="host", v0_port=9092)

    await send(
        replicas, received(UpdateMetadataRequest(controller_epoch=1, live_brokers=[live]), 0)
    )

    (taken,) = replicas.metadata
    (end_point,) = taken.live_brokers[0].endpoints
    assert (end_point.listener, end_point.host, end_point.port) == ("PLAINTEXT", "host", 9092)


SOUND = [("good", 0)]
UNSOUND = [
    ("../../etc", 0),
    ("", 0),
    ("..", 0),
    ("a/b", 0),
    ("made by hand", 0),
    ("x" * 250, 0),
    ("t", -1),
    ("x" * 249, 100_000),
    ("x" * 245, 2**31 - 1),
]


def with_good(request: Any, topic: str, partition: int) -> Any:
    """The request with another topic, and a good one behind it."""
    (first,) = request.topic_states
    first.partition_states[0].partition_index = partition
    states = [type(first.partition_states[0])()]
    request.topic_states.append(type(first)(topic_name="good", partition_states=states))
    return request


@pytest.mark.parametrize(("topic", "partition"), UNSOUND)
async def test_what_cannot_be_led_is_refused_and_spoils_nothing_else(
    topic: str, partition: int
) -> None:
    replicas = CountingReplicas()

    answer, _ = await send(replicas, with_good(leader_and_isr(topic=topic), topic, partition))

    assert replicas.led == SOUND
    codes = [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert [e.error_code for e in answer.partition_errors] == codes
    assert [[e.error_code for e in t.partition_errors] for t in answer.topics] == [
        [code] for code in codes
    ]


@pytest.mark.parametrize(("topic", "partition"), UNSOUND)
async def test_what_cannot_be_stopped_is_refused_and_spoils_nothing_else(
    topic: str, partition: int
) -> None:
    replicas = CountingReplicas()

    answer, _ = await send(replicas, with_good(stop_replica(topic=topic), topic, partition))

    assert [stopped[:2] for stopped in replicas.stopped] == SOUND
    codes = [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert [e.error_code for e in answer.partition_errors] == codes


@pytest.mark.parametrize(("topic", "partition"), UNSOUND)
async def test_metadata_of_what_cannot_be_is_left_out(topic: str, partition: int) -> None:
    replicas, request = (
        CountingReplicas(),
        with_good(update_metadata(topic=topic), topic, partition),
    )

    answer, _ = await send(replicas, request)

    (taken,) = replicas.metadata
    told = [
        (t.topic_name, s.partition_index) for t in taken.topic_states for s in t.partition_states
    ]
    assert (answer.error_code, told) == (ErrorCode.NONE, SOUND)
    assert len(request.topic_states[0].partition_states) == 1  # others are sent the same


@pytest.mark.parametrize(("topic", "partition"), [("x" * 249, 99_999), ("x" * 244, 2**31 - 1)])
async def test_the_longest_directory_name_is_taken(topic: str, partition: int) -> None:
    replicas, request = CountingReplicas(), leader_and_isr(topic=topic)
    request.topic_states[0].partition_states[0].partition_index = partition

    await send(replicas, request)

    assert replicas.led == [(topic, partition)]


async def test_a_negative_leader_epoch_is_refused() -> None:
    replicas, request = CountingReplicas(), leader_and_isr(partitions=2)
    request.topic_states[0].partition_states[0].leader_epoch = -1

    answer, _ = await send(replicas, request)

    assert replicas.led == [("t", 1)]
    assert {e.partition_index: e.error_code for e in answer.partition_errors} == {
        0: ErrorCode.INVALID_REQUEST,
        1: ErrorCode.NONE,
    }


@pytest.mark.parametrize("protocol", [-1, 4])
async def test_an_end_point_of_an_unknown_security_protocol_is_left_out(protocol: int) -> None:
    made = UpdateMetadataRequest.UpdateMetadataEndpoint
    live = UpdateMetadataRequest.UpdateMetadataBroker(
        id=4, endpoints=[made(security_protocol=protocol), made(host="good")], rack="r"
    )
    replicas = CountingReplicas()

    await send(replicas, UpdateMetadataRequest(live_brokers=[live]))

    (broker,) = replicas.metadata[0].live_brokers
    assert ([e.host for e in broker.endpoints], broker.rack) == (["good"], "r")
