"""A broker that ran alone becomes a broker of a cluster, and one that runs alone again: topics,
settings, groups and records go with it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.clients.writers import PARTITIONS
from compat_tests.cluster.processes import ZookeeperView
from compat_tests.conftest import BrokerProcess
from compat_tests.faults.kill_rounds import read_all
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import ZooKeeperServers
from compat_tests.wire.wire_client import (
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    WireClient,
    code,
)

RECORDS = 500
COMMITTED = 42
SESSION = ("--override", "zookeeper.session.timeout.ms=3000")


@pytest.fixture
def alone(target: str, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker without ZooKeeper."""
    if target != "kbroker":
        pytest.skip("Apache Kafka 3.9 has no such mode")
    broker = BrokerProcess(tmp_path / "one" / "data")
    yield broker
    if broker.process is not None and broker.process.poll() is None:
        broker.process.kill()


@pytest.fixture
def second(alone: BrokerProcess, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that joins later."""
    broker = BrokerProcess(tmp_path / "two" / "data")
    yield broker
    if broker.process is not None and broker.process.poll() is None:
        broker.process.kill()


def cluster_command(verb: str, data: Path, connect: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kbroker.cli", "cluster", verb,
         "--data", str(data), "--zookeeper", connect],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def write(bootstrap: str, topic: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def fill(bootstrap: str, topic: str, group: str) -> None:
    wire = WireClient(bootstrap)
    wire.create_topic(topic, PARTITIONS, {"retention.ms": "604800000"})
    resource = {"resource_type": 2, "resource_name": topic, "configs": [
        {"name": "segment.bytes", "config_operation": 0, "value": "100000"}]}  # fmt: skip
    altered = wire.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
    assert code(altered.responses[0].error_code) == "0"
    wire.close()
    write(bootstrap, topic, 0, RECORDS)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, COMMITTED)], asynchronous=False)
    consumer.close()


def assert_all_is_there(bootstrap: str, topic: str, group: str, records: int) -> None:
    found = read_all(bootstrap, topic)
    assert [list(values) for values in found.values] == [
        list(range(partition, records, PARTITIONS)) for partition in range(PARTITIONS)
    ]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    assert consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset == COMMITTED
    consumer.close()
    asked = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
    wire = WireClient(bootstrap)
    configs = wire.call(DESCRIBE_CONFIGS, 4, resources=[asked]).results[0].configs
    wire.close()
    assert {c.name: c.value for c in configs if c.config_source == 1} == {
        "retention.ms": "604800000",
        "segment.bytes": "100000",
    }


def told_id(bootstrap: str, topic: str) -> object:
    wire = WireClient(bootstrap)
    found = wire.metadata(topic, 10).topic_id
    wire.close()
    return found


def test_a_broker_goes_into_a_cluster_and_back_with_all_it_has(
    alone: BrokerProcess,
    second: BrokerProcess,
    zookeeper: ZooKeeperServers,
    topic: str,
    group: str,
) -> None:
    connect = zookeeper.connect(f"/{topic}")
    alone.start()
    fill(alone.bootstrap, topic, group)
    topic_id = told_id(alone.bootstrap, topic)
    assert alone.stop() == 0

    cluster_command("export", alone.data, connect)

    alone.options = ("--zookeeper", connect, *SESSION)
    second.options = ("--zookeeper", connect, *SESSION, "--override", "broker.id=77")
    alone.start()
    second.start()
    tree = ZookeeperView(connect)
    until(lambda: len(tree.broker_ids()) == 2, "both are registered")
    (first_id,) = (number for number in tree.broker_ids() if number != 77)
    assert told_id(second.bootstrap, topic) == topic_id
    assert_all_is_there(second.bootstrap, topic, group, RECORDS)
    assert set(tree.leaders(topic).values()) == {first_id}
    write(second.bootstrap, topic, RECORDS, 100)
    wire = WireClient(second.bootstrap)
    there = {"name": f"{topic}-there", "num_partitions": -1, "replication_factor": -1,
             "assignments": [{"partition_index": 0, "broker_ids": [77]}]}  # fmt: skip
    assert wire.create_topics(there) == ["0"]
    wire.call(DELETE_TOPICS, 5, topic_names=[f"{topic}-there"], timeout=20_000)
    wire.close()
    until(lambda: f"{topic}-there" not in tree.topics(), "it is gone again")
    assert second.stop() == 0
    assert alone.stop() == 0
    tree.close()

    cluster_command("import", alone.data, connect)

    alone.options = ()
    alone.start()
    assert told_id(alone.bootstrap, topic) == topic_id
    assert_all_is_there(alone.bootstrap, topic, group, RECORDS + 100)
    write(alone.bootstrap, topic, RECORDS + 100, 100)
    assert_all_is_there(alone.bootstrap, topic, group, RECORDS + 200)
    assert alone.stop() == 0
    assert "Traceback" not in alone.log_text() + second.log_text()


def test_an_exported_directory_does_not_start_alone(
    alone: BrokerProcess, zookeeper: ZooKeeperServers, topic: str
) -> None:
    """Two trees would go apart."""
    alone.start()
    assert alone.stop() == 0
    cluster_command("export", alone.data, zookeeper.connect(f"/{topic}"))

    with pytest.raises(RuntimeError, match="ended with"):
        alone.start()

    assert "Traceback" not in alone.log_text()
    assert "--zookeeper" in alone.log_text()
