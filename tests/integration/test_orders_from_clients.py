"""What brokers say to each other, said by a client: refused by a broker that has no peer, and in a
cluster wherever brokers do not speak, or by whom the tree does not know; what members say is done.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kbroker.errors import ErrorCode
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
from kbroker.protocol.schema import Message, response_class
from tests.faults.running_broker import RunningBroker, read_answer

TOPIC = "orders"
LATEST_EPOCH = 2**31 - 1
BROKERS_ONLY = {4, 5, 6, 7, 58, 67}
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@dataclass
class Sender:
    """Says things to a broker on one of its listeners."""

    broker: RunningBroker

    def ask(self, request: Message, version: int, port: int = 0) -> Any:
        """The answer; None where the connection was closed instead."""
        key = request.spec.key
        assert key is not None
        frame = encode(request, version, encode_request_header(RequestHeader(key, version, 1, "1")))
        with self.broker.connect_to(port or self.broker.port) as connection:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            data = read_answer(connection)
        if not data:
            return None
        _, offset = decode_response_header(data, key, version)
        return decode(response_class(type(request)), version, data, offset)[0]

    def keys(self, port: int = 0) -> set[int]:
        return {entry.api_key for entry in self.ask(ApiVersionsRequest(), 2, port).api_keys}

    def leader(self, port: int = 0) -> int:
        topics = [MetadataRequest.MetadataRequestTopic(name=TOPIC)]
        answer = self.ask(MetadataRequest(topics=topics), 9, port)
        return int(answer.topics[0].partitions[0].leader_id)

    def controller(self, port: int = 0) -> int:
        return int(self.ask(MetadataRequest(topics=[]), 9, port).controller_id)


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


def make_topic(broker: RunningBroker, name: str = TOPIC) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)


def write(broker: RunningBroker, topic: str = TOPIC) -> None:
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{broker.port}", "acks": "all"})
    producer.produce(topic, b"x")
    assert producer.flush(20) == 0


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Sender]:
    broker = RunningBroker(tmp_path / "data").start()
    try:
        make_topic(broker)
        yield Sender(broker)
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
    alone: Sender, request_: Message, version: int
) -> None:
    answer = alone.ask(request_, version)

    assert answer.error_code == REFUSED
    assert alone.leader() == 0
    make_topic(alone.broker, "later")  # its own controller is still heard
    write(alone.broker, "later")
    write(alone.broker)


def test_a_broker_without_peers_closes_on_an_envelope(alone: Sender) -> None:
    assert alone.ask(EnvelopeRequest(request_data=b"", client_host_address=bytes(4)), 0) is None


def test_a_broker_without_peers_has_no_followers_to_answer(alone: Sender) -> None:
    write(alone.broker)

    answer = alone.ask(follower_fetch(1), 11)

    (partition,) = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (partition.high_watermark, bytes(partition.records or b"")) == (-1, b"")


def test_a_broker_without_peers_lists_nothing_that_brokers_say(alone: Sender) -> None:
    assert not alone.keys() & BROKERS_ONLY
