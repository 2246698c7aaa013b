"""Data of Apache Kafka, 3.9.2 with ZooKeeper and 4.3.1 with KRaft, taken over: clients of the old
broker go on where they were, and Apache Kafka can open the directory again.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE
from compat_tests.running.moved_directories import adopting_broker, started_apache

TOPIC, COMPACTED, GONE, GROUP = "orders", "tables", "gone", "billing"
PARTITIONS = 3
RECORDS = 300
COMMITTED = 40  # in each partition
TIMEOUT_S = 30.0
EXIT_USAGE = 2

Found = dict[int, list[tuple[int, bytes | None]]]  # offset and value by partition


@pytest.fixture(params=[ZOOKEEPER_LINE, NEWEST])
def apache(request: pytest.FixtureRequest, target: str, tmp_path: Path) -> Iterator[ApacheBroker]:
    """Apache Kafka over an empty directory; it has written nothing yet."""
    if target != "kbroker":
        pytest.skip("starts brokers of its own")
    with started_apache(request.param, tmp_path / "kafka" / "data") as broker:
        yield broker


@pytest.fixture
def adopting(tmp_path: Path) -> Iterator[BrokerProcess]:
    """kbroker over Apache Kafka's directory, not started yet."""
    with adopting_broker(tmp_path / "kafka" / "data") as broker:
        yield broker


def test_after_a_kill_clients_go_on_where_they_were(
    apache: ApacheBroker, adopting: BrokerProcess
) -> None:
    _use(apache.bootstrap)
    before = _read(apache.bootstrap)
    apache.stop(signal.SIGKILL)

    asked = BrokerProcess(adopting.data)
    asked.launch()
    assert asked.process is not None
    assert asked.process.wait(TIMEOUT_S) == EXIT_USAGE
    adopting.start()

    assert "kbroker would adopt 3 topics" in adopting.log_text()
    assert "kbroker adopted 3 topics" in adopting.log_text()
    assert _read(adopting.bootstrap) == before
    assert sum(map(len, before.values())) == RECORDS
    admin = AdminClient({"bootstrap.servers": adopting.bootstrap})
    assert set(admin.list_topics(timeout=TIMEOUT_S).topics) == {
        TOPIC,
        COMPACTED,
        "__consumer_offsets",
    }
    _check_group(adopting.bootstrap, before)
    _check_settings(admin, apache)


def test_after_a_clean_stop_clients_go_on_and_the_directory_goes_back(
    apache: ApacheBroker, adopting: BrokerProcess
) -> None:
    _use(apache.bootstrap)
    before = _read(apache.bootstrap)
    apache.stop()
    adopting.start()
    _check_group(adopting.bootstrap, before)
    middle = _read(adopting.bootstrap)
    assert adopting.stop() == 0

    apache.start()

    assert _read(apache.bootstrap) == middle
    assert {p: found[:-1] for p, found in middle.items()} == before
    _write(apache.bootstrap, TOPIC, "newest", PARTITIONS)
    after = _read(apache.bootstrap)
    assert {p: found[:-1] for p, found in after.items()} == middle


def _use(bootstrap: str) -> None:
    """Work as clients do: topics with settings, idempotent records, a group, a deleted topic."""
    # A broker that has just started does not know its controller yet: ask again soon.
    admin = AdminClient({"bootstrap.servers": bootstrap, "topic.metadata.refresh.interval.ms": 200})
    compacted = {"cleanup.policy": "compact", "segment.ms": "3600000"}
    topics = [
        NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "86400000"}),
        NewTopic(COMPACTED, 1, 1, config=compacted),
        NewTopic(GONE, 2, 1),
    ]
    for created in admin.create_topics(topics).values():
        created.result(TIMEOUT_S)
    _write(bootstrap, TOPIC, "value", RECORDS)
    _write(bootstrap, COMPACTED, "row", 10)
    _write(bootstrap, GONE, "gone", 10)
    admin.delete_topics([GONE])[GONE].result(TIMEOUT_S)
    consumer = _consumer(bootstrap, GROUP)
    places = [TopicPartition(TOPIC, p, COMMITTED) for p in range(PARTITIONS)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def _write(bootstrap: str, topic: str, word: str, count: int) -> None:
    """Records in turn to each partition, from an idempotent producer."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    failures: list[KafkaError] = []
    partitions = PARTITIONS if topic == TOPIC else 1
    for number in range(count):
        producer.produce(
            topic,
            f"{word} {number}".encode(),
            key=b"%d" % number,
            partition=number % partitions,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert not failures


def _consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )


def _read(bootstrap: str) -> Found:
    """Every record of the topic."""
    consumer = _consumer(bootstrap, "reader")
    consumer.assign([TopicPartition(TOPIC, p, 0) for p in range(PARTITIONS)])
    found = _to_the_end(consumer)
    consumer.close()
    return found


def _to_the_end(consumer: Consumer) -> Found:
    found: Found = {p: [] for p in range(PARTITIONS)}
    unfinished = set(found)
    deadline = time.monotonic() + TIMEOUT_S
    while unfinished:
        assert time.monotonic() < deadline, f"no end of partitions {unfinished}"
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is None:
            found[message.partition()].append((message.offset(), message.value()))
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            unfinished.discard(message.partition())
    return found


def _check_group(bootstrap: str, before: Found) -> None:
    """The group's member gets what comes behind its committed offsets, new records included."""
    consumer = _consumer(bootstrap, GROUP)
    _write(bootstrap, TOPIC, "new", PARTITIONS)
    consumer.subscribe([TOPIC])
    found = _to_the_end(consumer)
    consumer.close()
    for partition, old in before.items():
        expected = old[COMMITTED:]
        assert found[partition][: len(expected)] == expected
        assert found[partition][len(expected) :] == [(len(old), b"new %d" % partition)]


def _check_settings(admin: AdminClient, apache: ApacheBroker) -> None:
    """KRaft's metadata tells a topic's settings; without them records stay for good."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in (TOPIC, COMPACTED)]
    orders, tables = (answer.result(TIMEOUT_S) for answer in _described(admin, resources))
    if apache.zookeeper is None:
        assert orders["retention.ms"].value == "86400000"
        assert tables["cleanup.policy"].value == "compact"
    else:
        assert orders["retention.ms"].value == "-1"
        assert tables["cleanup.policy"].value == "delete"


def _described(admin: AdminClient, resources: list[ConfigResource]) -> list:
    answers = admin.describe_configs(resources)
    return [answers[resource] for resource in resources]
