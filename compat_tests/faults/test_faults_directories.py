"""Data directories that go away under a broker or hold what is not its own, seen by a real
client.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.clients.every_client import create_topic
from compat_tests.conftest import BrokerProcess
from compat_tests.running.waiting import until
from compat_tests.wire.wire_client import WireClient

PARTITIONS = 4


def write(bootstrap: str, topic: str, partitions: int, timeout_ms: int = 3_000) -> set[int]:
    """One record to each partition; those that took it."""
    written: set[int] = set()
    producer = Producer(
        {"bootstrap.servers": bootstrap, "message.timeout.ms": timeout_ms, "log_level": 0}
    )
    for number in range(partitions):
        producer.produce(
            topic,
            b"%d" % number,
            partition=number,
            on_delivery=lambda error, message: error or written.add(message.partition()),
        )
    assert producer.flush(60) == 0
    return written


def read(bootstrap: str, topic: str, partitions: set[int]) -> set[int]:
    """Partitions whose record was found."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: set[int] = set()
    for _ in range(60):
        found |= {
            message.partition()
            for message in consumer.consume(500, timeout=0.5)
            if message.error() is None
        }
        if found >= partitions:
            break
    consumer.close()
    return found


def create(bootstrap: str, topic: str) -> None:
    """Raises KafkaException."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    (future,) = admin.create_topics([NewTopic(topic, 1)], request_timeout=5).values()
    future.result()


def two_directories(own_broker: Callable[..., BrokerProcess], where: Path) -> BrokerProcess:
    return own_broker("--override", f"log.dirs={where}/first,{where}/second")


def test_a_removed_directory_costs_its_partitions_and_no_others(
    own_broker: Callable[..., BrokerProcess], tmp_path: Path, topic: str
) -> None:
    broker = two_directories(own_broker, tmp_path)
    create_topic(broker.bootstrap, topic, PARTITIONS)
    assert write(broker.bootstrap, topic, PARTITIONS) == set(range(PARTITIONS))
    kept = {int(path.name[-1]) for path in (tmp_path / "first").glob(f"{topic}-*")}
    assert len(kept) == PARTITIONS // 2

    (tmp_path / "second").rename(tmp_path / "gone")
    until(lambda: "second is offline" in broker.log_text(), "it is said")

    assert write(broker.bootstrap, topic, PARTITIONS) == kept
    assert read(broker.bootstrap, topic, kept) == kept
    create(broker.bootstrap, f"{topic}-new")
    assert write(broker.bootstrap, f"{topic}-new", 1) == {0}
    assert broker.stop() == 0
    broker.start()  # an empty directory in its place: its partitions are empty, the others whole
    assert read(broker.bootstrap, topic, kept) == kept
    assert "Traceback" not in broker.log_text()


def test_without_the_first_directory_topics_stay_as_they_are_and_the_other_is_served(
    own_broker: Callable[..., BrokerProcess], tmp_path: Path, topic: str
) -> None:
    broker = two_directories(own_broker, tmp_path)
    create_topic(broker.bootstrap, topic, PARTITIONS)
    kept = {int(path.name[-1]) for path in (tmp_path / "second").glob(f"{topic}-*")}

    (tmp_path / "first").rename(tmp_path / "gone")
    until(lambda: "holds the cluster's metadata too" in broker.log_text(), "it is said")

    assert write(broker.bootstrap, topic, PARTITIONS) == kept
    with pytest.raises(KafkaException, match="The cluster's metadata cannot be changed now"):
        create(broker.bootstrap, f"{topic}-new")
    assert read(broker.bootstrap, topic, kept) == kept
    assert broker.stop() == 0
    assert "Traceback" not in broker.log_text()


def test_a_broker_without_any_directory_says_so_and_stops(
    own_broker: Callable[..., BrokerProcess], tmp_path: Path, topic: str
) -> None:
    broker = two_directories(own_broker, tmp_path)
    create_topic(broker.bootstrap, topic, 1)

    (tmp_path / "first").rename(tmp_path / "gone-1")
    (tmp_path / "second").rename(tmp_path / "gone-2")

    assert broker.process is not None
    assert broker.process.wait(20) == 1
    *_, last, place = broker.log_text().splitlines()
    assert last.startswith("Error: No data directory is left of ")
    assert place == "See kbroker help directory-unusable"
    assert "Traceback" not in broker.log_text()


def test_a_log_of_another_topic_of_the_name_holds_no_start_up(
    own_broker: Callable[..., BrokerProcess],
) -> None:
    broker = own_broker()
    client = WireClient(broker.bootstrap)
    client.create_topic("other")
    client.create_topic("served")
    client.close()
    assert broker.stop() == 0
    metadata = broker.data / "other-0" / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: 8DKYx1t3SBmC6lgbKhSJSQ\n")

    broker.start()

    client = WireClient(broker.bootstrap)
    assert client.list_offsets("served", -1).startswith("0 ")
    assert client.list_offsets("other", -1).startswith("6 NOT_LEADER_OR_FOLLOWER")
    client.close()
    assert "INCONSISTENT_TOPIC_ID" in broker.log_text()
    assert "starts to serve before it leads" not in broker.log_text()
