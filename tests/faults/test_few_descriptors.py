"""More partitions than descriptors: segment files are opened and closed as they are needed."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.running_broker import RunningBroker

DESCRIPTORS = 128
PARTITIONS = 300


def test_all_partitions_are_written_and_read(make_broker: Callable[..., RunningBroker]) -> None:
    limits = (DESCRIPTORS, DESCRIPTORS)
    broker = make_broker(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits))
    broker.start()
    client = {"bootstrap.servers": f"127.0.0.1:{broker.port}", "log_level": 0}
    admin = AdminClient(client)
    admin.create_topics([NewTopic("wide", PARTITIONS, 1)])["wide"].result(30)

    written = write(client)
    most = broker.descriptors()
    found = read(client)

    assert written == found == set(range(PARTITIONS))
    assert DESCRIPTORS // 2 <= most < DESCRIPTORS
    assert "Too many open files" not in broker.said()
    assert "offline" not in broker.said()
    assert broker.stop() == 0


def test_a_topic_is_deleted_though_connections_take_all_descriptors(
    make_broker: Callable[..., RunningBroker],
) -> None:
    limits = (DESCRIPTORS, DESCRIPTORS)
    broker = make_broker(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits))
    broker.start()
    client = {"bootstrap.servers": f"127.0.0.1:{broker.port}", "log_level": 0}
    admin = AdminClient(client)
    admin.create_topics([NewTopic("wide", PARTITIONS, 1)])["wide"].result(30)
    assert write(client) == set(range(PARTITIONS))

    taken = []
    while broker.descriptors() < DESCRIPTORS - 1 and len(taken) < 2 * DESCRIPTORS:
        taken.append(socket.create_connection(("127.0.0.1", broker.port)))
    admin.delete_topics(["wide"], operation_timeout=20)["wide"].result(30)
    for connection in taken:
        connection.close()
    admin.create_topics([NewTopic("next", 1, 1)])["next"].result(30)

    assert "offline" not in broker.said()
    assert broker.stop() == 0
    broker.start()
    assert set(AdminClient(client).list_topics(timeout=30).topics) == {"next"}
    assert "stay closed" not in broker.said()
    assert broker.stop() == 0


def write(client: dict[str, object]) -> set[int]:
    written: set[int] = set()
    producer = Producer(client)
    for number in range(PARTITIONS):
        producer.produce(
            "wide",
            b"value",
            partition=number,
            on_delivery=lambda error, message: error or written.add(message.partition()),
        )
    assert producer.flush(60) == 0
    return written


def read(client: dict[str, object]) -> set[int]:
    consumer = Consumer({**client, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition("wide", number, 0) for number in range(PARTITIONS)])
    found: set[int] = set()
    for _ in range(60):
        found |= {message.partition() for message in consumer.consume(500, timeout=0.5)}
        if len(found) == PARTITIONS:
            break
    consumer.close()
    return found
