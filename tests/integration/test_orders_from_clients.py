"""What brokers say to each other, said by a client: refused by a broker that has no peer, and in a
cluster wherever brokers do not speak, or by whom the tree does not know; what members say is done.
"""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from socket import create_connection
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.running.waiting import until as until_now
from kbroker.client.bootstrap import Bootstrap
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.hanging_transactions import OpenTransaction, open_transactions
from kbroker.client.transactions import describe_transaction, producers_of
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from kbroker.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from kbroker.protocol.messages.envelope import EnvelopeRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kbroker.protocol.schema import Message, response_class
from kbroker.server.broker.kafka_server import KafkaServer
from kbroker.server.start.local_cluster import LocalCluster
from kbroker.server.start.local_configs import configs_of_brokers
from tests.fakes.running.waiting import until
from tests.faults.running_broker import RunningBroker, read_answer

TOPIC = "orders"
LATEST_EPOCH = 2**31 - 1
BROKERS_ONLY = {4, 5, 6, 7, 58, 67}
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def ask(port: int, request: Message, version: int) -> Any:
    """The answer; None where the connection was closed instead."""
    key = request.spec.key
    assert key is not None
    frame = encode(request, version, encode_request_header(RequestHeader(key, version, 1, "1")))
    with create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        data = read_answer(connection)
    if not data:
        return None
    _, offset = decode_response_header(data, key, version)
    return decode(response_class(type(request)), version, data, offset)[0]


def listed_keys(port: int) -> set[int]:
    return {entry.api_key for entry in ask(port, ApiVersionsRequest(), 2).api_keys}


def leader_of(port: int, topic: str = TOPIC) -> int:
    topics = [MetadataRequest.MetadataRequestTopic(name=topic)]
    answer = ask(port, MetadataRequest(topics=topics), 9)
    return int(answer.topics[0].partitions[0].leader_id)


def leader_and_isr(controller: int, epoch: int, leader: int, broker_epoch: int = -1) -> Any:
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
        topic_name=TOPIC, partition_index=0, controller_epoch=epoch, leader=leader,
        leader_epoch=1000, isr=[leader], partition_epoch=1000, replicas=[leader],
    )  # fmt: skip
    topic = LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name=TOPIC, partition_states=[state])
    return LeaderAndIsrRequest(
        controller_id=controller, controller_epoch=epoch, broker_epoch=broker_epoch,
        topic_states=[topic], ungrouped_partition_states=[state],
    )  # fmt: skip


def stop_replica(controller: int, epoch: int, broker_epoch: int = -1) -> Any:
    state = StopReplicaRequest.StopReplicaPartitionState(
        partition_index=0, leader_epoch=1000, delete_partition=True
    )
    topic = StopReplicaRequest.StopReplicaTopicState(topic_name=TOPIC, partition_states=[state])
    return StopReplicaRequest(
        controller_id=controller, controller_epoch=epoch, broker_epoch=broker_epoch,
        topic_states=[topic],
    )  # fmt: skip


def update_metadata(controller: int, epoch: int, broker_epoch: int = -1) -> Any:
    return UpdateMetadataRequest(
        controller_id=controller, controller_epoch=epoch, broker_epoch=broker_epoch
    )


def follower_fetch(replica_id: int) -> Any:
    asked = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1024)
    topic = FetchRequest.FetchTopic(topic=TOPIC, partitions=[asked])
    return FetchRequest(replica_id=replica_id, max_bytes=1024, topics=[topic])


def markers(*, is_commit: bool, producer_id: int = 5, coordinator_epoch: int = 0) -> Any:
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer_id,
        transaction_result=is_commit,
        topics=[topic],
        coordinator_epoch=coordinator_epoch,
    )
    return WriteTxnMarkersRequest(markers=[marker])


def outcome(answer: Any) -> int:
    """Of the one partition in an answer to `markers`."""
    return int(answer.markers[0].topics[0].partitions[0].error_code)


def open_in_topic(links: ClusterLinks) -> list[OpenTransaction]:
    place = TopicPartition(TOPIC, 0)
    told = producers_of(links, {place: 0})[place]
    assert not isinstance(told, KafkaError)
    return open_transactions(place, told)


def make_topic(port: int, name: str = TOPIC) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)


def write(port: int, topic: str = TOPIC) -> None:
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "acks": "all"})
    producer.produce(topic, b"x")
    assert producer.flush(20) == 0


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a broker that goes on as it was, whatever it is told."""
    broker = RunningBroker(tmp_path_factory.mktemp("alone") / "data").start()
    try:
        make_topic(broker.port)
        yield broker.port
    finally:
        broker.end()


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (leader_and_isr(0, 1, 7), 1),
        (leader_and_isr(0, 1, 7), 7),
        (leader_and_isr(0, LATEST_EPOCH, 7), 7),
        (stop_replica(0, 1), 3),
        (update_metadata(0, 1), 5),
        (update_metadata(0, LATEST_EPOCH), 8),
        (ControlledShutdownRequest(broker_id=0, broker_epoch=-1), 3),
        (ControlledShutdownRequest(broker_id=0), 1),
        (AllocateProducerIdsRequest(broker_id=0, broker_epoch=0), 0),
    ],
)
def test_a_broker_without_peers_takes_no_orders(
    alone: int, request_: Message, version: int
) -> None:
    answer = ask(alone, request_, version)

    assert answer.error_code == REFUSED
    assert leader_of(alone) == 0
    later = f"later-{uuid.uuid4().hex}"
    make_topic(alone, later)  # its own controller is still heard
    write(alone, later)
    write(alone)


def test_a_broker_without_peers_closes_on_an_envelope(alone: int) -> None:
    assert ask(alone, EnvelopeRequest(request_data=b"", client_host_address=bytes(4)), 0) is None


@pytest.mark.parametrize("version", [0, 1])
def test_a_broker_without_peers_lets_transactions_be_aborted_and_not_committed(
    alone: int, version: int
) -> None:
    said = [outcome(ask(alone, markers(is_commit=commit), version)) for commit in (True, False)]

    assert said == [REFUSED, ErrorCode.NONE]


def test_a_marker_of_a_coordinator_that_never_was_keeps_nobody_from_the_end_of_a_transaction(
    alone: int,
) -> None:
    address = f"127.0.0.1:{alone}"
    producer = Producer({"bootstrap.servers": address, "transactional.id": "kept-from-its-end"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(TOPIC, b"in it")
    assert producer.flush(20) == 0
    with closing(ClusterLinks(Bootstrap(address))) as links:
        described = describe_transaction(links, "kept-from-its-end")
        assert described is not None
        false = markers(
            is_commit=False, producer_id=described.producer_id, coordinator_epoch=2**31 - 1
        )
        refused = outcome(ask(alone, false, 1))
        producer.commit_transaction(20)
        until_now(lambda: not open_in_topic(links), "its marker is written")

    assert refused == ErrorCode.INVALID_REQUEST


def test_a_broker_without_peers_has_no_followers_to_answer(alone: int) -> None:
    write(alone)

    answer = ask(alone, follower_fetch(1), 11)

    (partition,) = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (partition.high_watermark, bytes(partition.records or b"")) == (-1, b"")


def test_a_broker_without_peers_lists_nothing_that_brokers_say(alone: int) -> None:
    assert not listed_keys(alone) & BROKERS_ONLY


# A cluster: broker 0 is controller, INSIDE is where brokers speak to each other.

LISTENERS = {
    "listeners": "OUTSIDE://127.0.0.1:0,INSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "OUTSIDE:PLAINTEXT,INSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
}


class Members:
    """Two brokers of one process, seen from outside."""

    def __init__(self, local: LocalCluster) -> None:
        self.local = local

    def server(self, number: int) -> KafkaServer:
        server = self.local.servers[number]
        assert server is not None
        return server

    def port(self, number: int, listener: str = "INSIDE") -> int:
        points = self.server(number).end_points
        return next((e.port for e in points if e.listener_name == listener), points[0].port)

    async def say(
        self, number: int, request: Message, version: int, listener: str = "INSIDE"
    ) -> Any:
        return await asyncio.to_thread(ask, self.port(number, listener), request, version)

    async def assert_unharmed(self, topic: str) -> None:
        """Topics are made, spread and written: controller and brokers still hear each other."""
        port = self.port(0, "OUTSIDE")
        await asyncio.to_thread(make_topic, port, topic)
        await asyncio.to_thread(write, port, topic)
        await asyncio.to_thread(write, port, TOPIC)
        assert [server.is_controller for server in map(self.server, (0, 1))] == [True, False]


@pytest.fixture
async def members(tmp_path: Path, settings: dict[str, str]) -> AsyncIterator[Members]:
    config = KafkaConfig.for_profile("dev", {"log.dirs": str(tmp_path), **settings})
    local = LocalCluster(configs_of_brokers(config, 2), str(tmp_path))
    await local.startup()
    try:
        members = Members(local)
        await asyncio.to_thread(make_topic, members.port(0, "OUTSIDE"))
        yield members
    finally:
        await local.shutdown()


ONE_LISTENER = {"listeners": "PLAINTEXT://127.0.0.1:0"}


def true_orders(members: Members, number: int) -> list[tuple[Message, int]]:
    """List what the controller could say to a broker, and the other broker to the controller."""
    epoch, sender = members.server(number).broker_epoch, members.server(1)
    return [
        (update_metadata(0, 1, epoch), 8),
        (update_metadata(0, 1), 4),
        (AllocateProducerIdsRequest(broker_id=1, broker_epoch=sender.broker_epoch), 0),
        (ControlledShutdownRequest(broker_id=1, broker_epoch=sender.broker_epoch), 3),
    ]


@pytest.mark.parametrize("settings", [LISTENERS, ONE_LISTENER], ids=["two", "one"])
async def test_members_are_heard_where_brokers_speak(
    settings: dict[str, str], members: Members
) -> None:
    leader = await asyncio.to_thread(leader_of, members.port(0))
    for is_commit in (True, False):
        answer = await members.say(leader, markers(is_commit=is_commit), 1)
        assert outcome(answer) == ErrorCode.NONE

    answers = [await members.say(0, *order) for order in true_orders(members, 0)]

    assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * 4
    assert (await asyncio.to_thread(listed_keys, members.port(0))) >= BROKERS_ONLY


@pytest.mark.parametrize("settings", [LISTENERS])
async def test_nobody_is_heard_as_a_broker_where_clients_speak(members: Members) -> None:
    for number in (0, 1):
        for order in true_orders(members, number):
            answer = await members.say(number, *order, "OUTSIDE")
            assert answer.error_code == REFUSED
        port = members.port(number, "OUTSIDE")
        assert not await asyncio.to_thread(listed_keys, port) & BROKERS_ONLY
        answer = await members.say(number, follower_fetch(1), 11, "OUTSIDE")
        (partition,) = answer.responses[0].partitions
        assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    leader = await asyncio.to_thread(leader_of, members.port(0))
    for is_commit, code in ((True, REFUSED), (False, ErrorCode.NONE)):
        answer = await members.say(leader, markers(is_commit=is_commit), 1, "OUTSIDE")
        assert outcome(answer) == code
    envelope = EnvelopeRequest(request_data=b"", client_host_address=bytes(4))
    assert await members.say(0, envelope, 0, "OUTSIDE") is None
    await members.assert_unharmed("later")


@pytest.mark.parametrize("settings", [LISTENERS, ONE_LISTENER], ids=["two", "one"])
async def test_orders_of_a_controller_that_the_tree_does_not_know_are_refused(
    settings: dict[str, str], members: Members
) -> None:
    for number in (0, 1):
        own = members.server(number).broker_epoch
        wrong = [(0, 0), (0, 2), (0, LATEST_EPOCH), (1, 1), (1, 2), (7, LATEST_EPOCH), (-1, 1)]
        codes = [
            (await members.say(number, order, version)).error_code
            for controller, epoch in wrong
            for order, version in (
                (leader_and_isr(controller, epoch, 7, own), 7),
                (stop_replica(controller, epoch, own), 4),
                (update_metadata(controller, epoch, own), 8),
            )
        ]
        stale = [ErrorCode.STALE_CONTROLLER_EPOCH] * 3
        assert codes == [*stale, *stale, *stale, *[REFUSED] * 12]
        early = (await members.say(number, update_metadata(0, 1, own - 1), 8)).error_code
        assert early == ErrorCode.STALE_BROKER_EPOCH
    await members.assert_unharmed("later")


@pytest.mark.parametrize("settings", [ONE_LISTENER])
async def test_a_broker_of_another_epoch_is_not_the_one_in_the_tree(members: Members) -> None:
    epoch = members.server(1).broker_epoch
    codes = {
        number: (await members.say(0, request, version)).error_code
        for number, (request, version) in enumerate(
            [
                (ControlledShutdownRequest(broker_id=1, broker_epoch=epoch - 1), 3),
                (ControlledShutdownRequest(broker_id=1, broker_epoch=epoch + 1), 3),
                (ControlledShutdownRequest(broker_id=77, broker_epoch=epoch), 3),
                (AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch + 1), 0),
                (AllocateProducerIdsRequest(broker_id=77, broker_epoch=epoch), 0),
            ]
        )
    }

    assert list(codes.values()) == [
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
    ]


@pytest.mark.parametrize("settings", [ONE_LISTENER])
async def test_the_next_controller_is_heard_and_the_one_before_not_any_more(
    members: Members,
) -> None:
    await members.local.stop_broker(0)
    successor = members.server(1)

    await until(lambda: successor.is_controller)
    await members.local.start_broker(0)
    own = members.server(0).broker_epoch

    codes = [
        (await members.say(0, update_metadata(controller, epoch, own), 8)).error_code
        for controller, epoch in [(1, 2), (0, 1), (0, 2), (1, 1), (1, 3)]
    ]

    assert codes == [
        ErrorCode.NONE,
        ErrorCode.STALE_CONTROLLER_EPOCH,
        REFUSED,
        ErrorCode.STALE_CONTROLLER_EPOCH,
        ErrorCode.STALE_CONTROLLER_EPOCH,
    ]


CONTROL_PLANE = {
    "listeners": f"{LISTENERS['listeners']},ORDERS://127.0.0.1:0",
    "listener.security.protocol.map": (
        f"{LISTENERS['listener.security.protocol.map']},ORDERS:PLAINTEXT"
    ),
    "control.plane.listener.name": "orders",
}


@pytest.mark.parametrize("settings", [LISTENERS | CONTROL_PLANE])
async def test_the_control_plane_has_a_listener_of_its_own(members: Members) -> None:
    for listener, code in (("INSIDE", 0), ("ORDERS", 0), ("OUTSIDE", REFUSED)):
        epoch = members.server(1).broker_epoch
        answer = await members.say(1, update_metadata(0, 1, epoch), 8, listener)
        assert answer.error_code == code
    await members.assert_unharmed("later")
