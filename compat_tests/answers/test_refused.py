"""Requests that a broker refuses leave a line in its log, with the setting that decided, at the level
at which a broker starts.
"""

from __future__ import annotations

import logging
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.conftest import BrokerProcess
from compat_tests.running.waiting import until

SILENT = logging.Logger("librdkafka", logging.CRITICAL + 1)
ANY_CLIENT = re.compile(r"client '[^']*' at 127\.0\.0\.1:\d+ \(confluent-kafka-python [^)]*\)")


@pytest.fixture(scope="module")
def broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    if target != "kbroker":
        pytest.skip("reads the log of kbroker")
    options = ("--override", "message.max.bytes=1000000")
    broker = BrokerProcess(tmp_path_factory.mktemp("refused") / "data", options)
    broker.start()
    admin = AdminClient(settings(broker))
    topic = NewTopic("t", 1, config={"max.message.bytes": "100000"})
    admin.create_topics([topic])["t"].result(30)
    yield broker
    broker.stop()


def settings(broker: BrokerProcess, **own: str) -> dict[str, object]:
    dotted = {name.replace("_", "."): value for name, value in own.items()}
    return {"bootstrap.servers": broker.bootstrap, "logger": SILENT, **dotted}


def told_of(broker: BrokerProcess, client_id: str) -> list[str]:
    """Return what the log says of a client, whose place is CLIENT."""
    lines = [line for line in broker.log_text().splitlines() if f"client '{client_id}'" in line]
    told = [line.partition(" INFO kbroker.apis.refused_requests: ")[2] for line in lines]
    return [ANY_CLIENT.sub("CLIENT", line) for line in told]


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_a_record_that_is_too_large_is_told_with_the_limit_of_its_topic(
    broker: BrokerProcess, acks: str
) -> None:
    topic = f"large-{acks}"
    config = {"max.message.bytes": "100000"}
    admin = AdminClient(settings(broker))
    admin.create_topics([NewTopic(topic, 1, config=config)])[topic].result(30)
    producer = Producer(settings(broker, client_id=topic, acks=acks, message_max_bytes="9000000"))

    producer.produce(topic, b"x" * 2_000_000)
    producer.flush(30)

    # With acks=0 the producer is through before the broker has looked at it.
    assert until(lambda: told_of(broker, topic))[:1] == [
        f"Produce of '{topic}-0' was refused to CLIENT: MESSAGE_TOO_LARGE "
        "(max.message.bytes=100000)"
    ]


def test_an_invalid_name_is_told(broker: BrokerProcess) -> None:
    producer = Producer(settings(broker, client_id="names", topic_metadata_refresh_interval_ms="1"))

    with suppress(KafkaException):
        producer.list_topics("a b", timeout=30)

    assert told_of(broker, "names") == [
        "Metadata of 'a b' was refused to CLIENT: INVALID_TOPIC_EXCEPTION"
    ]


def test_a_missing_topic_and_a_missing_partition_are_told(broker: BrokerProcess) -> None:
    consumer = Consumer(settings(broker, client_id="readers", group_id="g"))
    consumer.subscribe(["missing"])
    assert consumer.poll(30) is not None  # the error
    consumer.unsubscribe()

    with pytest.raises(KafkaException):
        consumer.commit(offsets=[TopicPartition("t", 7, 1)], asynchronous=False)
    consumer.close()

    assert told_of(broker, "readers") == [
        "Metadata of 'missing' was refused to CLIENT: UNKNOWN_TOPIC_OR_PARTITION "
        "(the client asked not to create it)",
        "OffsetCommit of 't-7' for 'g' was refused to CLIENT: UNKNOWN_TOPIC_OR_PARTITION",
    ]


def test_what_an_administrator_is_refused_is_told_with_its_reason(broker: BrokerProcess) -> None:
    admin = AdminClient(settings(broker, client_id="admins"))

    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic("three", 1, replication_factor=3)])["three"].result(30)

    assert told_of(broker, "admins") == [
        "CreateTopics of 'three' was refused to CLIENT: INVALID_REPLICATION_FACTOR: "
        "Replication factor: 3 larger than available brokers: 1."
    ]


def test_a_frame_that_is_too_large_is_told_with_its_setting(broker: BrokerProcess) -> None:
    with socket.create_connection(("127.0.0.1", broker.port)) as connection:
        connection.sendall(struct.pack(">i", 200_000_000))
        assert connection.recv(1) == b""

    assert "frame of 200000000 bytes (socket.request.max.bytes=104857600)" in broker.log_text()
