"""Consumer groups of the new protocol on three brokers over a ZooKeeper, which Apache Kafka never had
there: off at first, raised, used while a coordinator is killed, lowered.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from compat_tests.cluster.processes import Cluster
from compat_tests.commands.command_line import run
from compat_tests.running.zookeeper_servers import ZooKeeperServers
from compat_tests.wire.wire_client import FIND_COORDINATOR

SETTINGS = {"offsets.topic.replication.factor": "3", "default.replication.factor": "3"}
TOPIC, PARTITIONS, RECORDS = "t", 6, 120
PATIENCE_S = 60


@pytest.fixture
def cluster(target: str, zookeeper: ZooKeeperServers, tmp_path: Path) -> Cluster:
    if target != "kbroker":
        pytest.skip("Apache Kafka with a ZooKeeper does not serve such groups")
    return Cluster(tmp_path, zookeeper, ["kbroker"] * 3, SETTINGS, chroot="/new-groups")


def member(cluster: Cluster) -> Consumer:
    consumer = Consumer({
        "bootstrap.servers": cluster.bootstrap, "group.id": "g", "group.protocol": "consumer",
        "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0,
    })  # fmt: skip
    consumer.subscribe([TOPIC])
    return consumer


def read(consumer: Consumer, count: int) -> set[bytes]:
    """Read that many different records, committing them."""
    found: set[bytes] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        for message in consumer.consume(100, 0.2):
            error = message.error()
            if error is None:
                found.add(message.value() or b"")
            elif error.fatal() or error.code() == KafkaError._FATAL:
                raise KafkaException(error)
    consumer.commit(asynchronous=False)
    return found


def write(cluster: Cluster, first: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(first, first + RECORDS):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def coordinator_of(cluster: Cluster, group: str) -> int:
    with cluster.wire(cluster.ids[0]) as wire:
        return int(wire.call(FIND_COORDINATOR, 3, key=group, key_type=0).node_id)


def test_they_are_switched_on_survive_their_coordinator_and_are_switched_off(
    cluster: Cluster,
) -> None:
    with cluster:
        cluster.start()
        assert run(
            "topic", "create", TOPIC, "--partitions", str(PARTITIONS), bootstrap=cluster.bootstrap
        ).code == 0  # fmt: skip
        write(cluster, 0)
        refused = member(cluster)
        with pytest.raises(KafkaException, match="API version not supported"):
            read(refused, RECORDS)
        refused.close()

        raised = run("cluster", "features", "--set", "group.version=1", bootstrap=cluster.bootstrap)
        assert raised.err == "group.version: raised from 0 to 1\n"
        consumer = member(cluster)
        assert len(read(consumer, RECORDS)) == RECORDS
        listed = run("group", "describe", "g", "--output", "json", bootstrap=cluster.bootstrap)
        assert listed.code == 0
        cluster.kill(coordinator_of(cluster, "g"))
        write(cluster, RECORDS)
        assert len(read(consumer, RECORDS)) == RECORDS
        cluster.heal()

        lowered = run(
            "cluster", "features", "--set", "group.version=0", "--downgrade",
            bootstrap=cluster.bootstrap,
        )  # fmt: skip
        assert lowered.err == "group.version: lowered from 1 to 0\n"
        write(cluster, 2 * RECORDS)
        with pytest.raises(KafkaException, match="API version not supported"):
            read(consumer, 10 * RECORDS)
        consumer.close()
