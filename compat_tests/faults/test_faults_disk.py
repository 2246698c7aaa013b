"""A disk that fills up under a running broker: it goes on living, and nothing acknowledged is lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka import KafkaError as ClientError

from compat_tests.clients.every_client import create_topic
from compat_tests.conftest import BrokerProcess
from compat_tests.faults.fill_rounds import FillRounds, MountError, mount, small_disk

RECORD_BYTES = 50_000
RECORDS = 160
PARTITIONS = 2

Place = tuple[int, int]  # partition, offset


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A volume of 3 MB."""
    try:
        with small_disk(tmp_path / "small", megabytes=3) as path:
            yield path
    except MountError as error:
        pytest.skip(str(error))


def write(bootstrap: str, topic: str) -> tuple[dict[Place, int], list[int]]:
    """Acknowledged records by place, and the partitions of those that were not."""
    acknowledged: dict[Place, int] = {}
    refused: list[int] = []

    def delivered(error: ClientError | None, message: Message) -> None:
        if error is None:
            acknowledged[message.partition(), message.offset()] = int(message.value()[:6])
        else:
            refused.append(message.partition())

    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 3_000, "log_level": 0}
    )
    for number in range(RECORDS):
        value = b"%06d" % number + os.urandom(RECORD_BYTES)
        producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=delivered)
        producer.poll(0.001)
    producer.flush(10)
    return acknowledged, refused


def read(bootstrap: str, topic: str, count: int) -> dict[Place, int]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,  # there may be no room for offsets
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: dict[Place, int] = {}
    for _ in range(120):
        for message in consumer.consume(500, timeout=0.5):
            assert message.error() is None
            found[message.partition(), message.offset()] = int(message.value()[:6])
        if len(found) >= count:
            break
    consumer.close()
    return found


def test_after_space_was_freed_writes_go_on_and_every_acknowledged_record_is_there(
    own_broker: Callable[..., BrokerProcess], disk: Path, topic: str
) -> None:
    broker = own_broker("--override", f"log.dirs={disk}/data", "--log-level", "info")
    create_topic(broker.bootstrap, topic, PARTITIONS)

    acknowledged, refused = write(broker.bootstrap, topic)

    assert refused
    assert read(broker.bootstrap, topic, len(acknowledged)) == acknowledged
    said = broker.log_text()
    assert said.count("is full: what does not fit is refused") == 1
    assert "No space left on device" in said
    mount(disk, "remount,size=64m")
    later, refused = write(broker.bootstrap, topic)
    assert refused == []
    everything = acknowledged | later
    assert len(everything) == len(acknowledged) + len(later)
    assert read(broker.bootstrap, topic, len(everything)) == everything
    assert broker.stop() == 0
    broker.start()
    assert read(broker.bootstrap, topic, len(everything)) == everything
    assert "offline" not in broker.log_text()
    assert "Traceback" not in broker.log_text()


def test_a_disk_that_is_filled_and_freed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    try:
        with small_disk(tmp_path / "small") as path:
            rounds = FillRounds(path)
            try:
                rounds.run(4)
            finally:
                if rounds.broker.process is not None and rounds.broker.process.poll() is None:
                    rounds.broker.process.kill()
    except MountError as error:
        pytest.skip(str(error))

    assert rounds.refused > 10
    assert rounds.restarts == 2
    assert len(rounds.acknowledged) > 30


def test_a_full_data_directory_leaves_the_others_at_work(
    own_broker: Callable[..., BrokerProcess], disk: Path, tmp_path: Path, topic: str
) -> None:
    dirs = f"{tmp_path}/large,{disk}/data"
    broker = own_broker("--override", f"log.dirs={dirs}")
    create_topic(broker.bootstrap, topic, PARTITIONS)
    (lost,) = [
        partition for partition in range(PARTITIONS)
        if (disk / "data" / f"{topic}-{partition}").exists()
    ]  # fmt: skip

    acknowledged, refused = write(broker.bootstrap, topic)

    assert set(refused) == {lost}
    assert sum(place[0] != lost for place in acknowledged) == RECORDS // PARTITIONS
    create_topic(broker.bootstrap, f"{topic}-new", PARTITIONS)
    assert write(broker.bootstrap, f"{topic}-new")[1] == []
    assert broker.stop() == 0
    assert "Traceback" not in broker.log_text()
