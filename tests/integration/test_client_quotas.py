"""Real clients with quotas: all is sent and read, as fast as allowed, and they know that they wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as Place

from compat_tests.running.waiting import until
from kbroker.testing import Broker

RATE = 100_000  # bytes in a second, and so many at once
QUOTA = "producer=100kB/s consumer=100kB/s"
VALUE = b"v" * 10_000
RECORDS = 30
LEAST_S, MOST_S = 1.8, 20.0  # of 300 kB


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    windows = {"quota.window.num": "2", "quota.window.size.seconds": "1"}
    with Broker(settings=windows, quotas=[f"--default client-id {QUOTA}"]) as running:
        yield running


def by_kafka_python(bootstrap: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id="python", acks=1)
    began_s = time.monotonic()
    for sent in [producer.send("python", VALUE, partition=0) for _ in range(RECORDS)]:
        sent.get(60)
    assert LEAST_S < time.monotonic() - began_s < MOST_S
    assert producer.metrics()["producer-metrics"]["throttle-time-max"] > 0
    producer.close()
    consumer = KafkaConsumer(
        "python",
        bootstrap_servers=bootstrap,
        client_id="python",
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=50_000,
    )
    began_s = time.monotonic()
    assert [next(consumer).offset for _ in range(RECORDS)] == list(range(RECORDS))
    assert LEAST_S < time.monotonic() - began_s < MOST_S
    consumer.close()


def by_confluent(bootstrap: str) -> None:
    pauses: list[float] = []
    settings = {
        "bootstrap.servers": bootstrap,
        "client.id": "confluent",
        "throttle_cb": lambda event: pauses.append(event.throttle_time),
    }
    producer = Producer({**settings, "batch.size": 20_000})
    began_s = time.monotonic()
    for _ in range(RECORDS):
        producer.produce("confluent", VALUE, partition=0)
    assert producer.flush(60) == 0
    assert LEAST_S < time.monotonic() - began_s < MOST_S
    assert pauses
    pauses.clear()
    consumer = Consumer(
        {
            **settings,
            "group.id": "g",
            "fetch.message.max.bytes": 50_000,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition("confluent", 0, 0)])
    began_s = time.monotonic()
    offsets: list[int] = []
    while len(offsets) < RECORDS:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        offsets.append(message.offset())
    assert offsets == list(range(RECORDS))
    assert LEAST_S < time.monotonic() - began_s < MOST_S
    assert pauses
    consumer.close()


def without_answers(bootstrap: str) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "client.id": "silent", "acks": "0", "batch.size": 20_000}
    )
    for _ in range(RECORDS):
        producer.produce("silent", VALUE, partition=0)
    began_s = time.monotonic()
    producer.flush(60)
    reader = KafkaConsumer(bootstrap_servers=bootstrap, client_id="reader")
    place = Place("silent", 0)
    until(lambda: reader.end_offsets([place])[place] == RECORDS, timeout_s=MOST_S)
    assert time.monotonic() - began_s > LEAST_S
    reader.close()


def test_real_clients_wait_as_long_as_they_are_asked_to_and_lose_nothing(broker: Broker) -> None:
    with ThreadPoolExecutor() as threads:
        clients = by_kafka_python, by_confluent, without_answers
        for done in [threads.submit(client, broker.bootstrap) for client in clients]:
            done.result(120)
