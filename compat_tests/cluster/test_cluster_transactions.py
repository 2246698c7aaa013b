"""Transactions in a cluster: their coordinator ends or moves between two requests, leaders of their
partitions do, and kbroker and Apache Kafka coordinate and end transactions for each other.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from compat_tests.clients.every_client import begin_transaction, transactional_producer
from compat_tests.clients.test_transactions import values_of
from compat_tests.cluster.processes import Cluster
from compat_tests.cluster.replicas import (
    SETTINGS,
    TRANSACTION,
    await_coordinator,
    await_in_sync,
    await_same_logs,
    coordinator,
    create,
)
from compat_tests.running.waiting import PATIENCE_S, until
from compat_tests.running.zookeeper_servers import ZooKeeperServers

STATE = "__transaction_state"


@pytest.fixture(scope="module")
def shared_transactional(
    kind: str, zookeeper: ZooKeeperServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three brokers whose topics have three replicas, two of which must be in sync."""
    folder = tmp_path_factory.mktemp("transactional")
    with Cluster(folder, zookeeper, [kind] * 3, SETTINGS, chroot="/transactional") as cluster:
        cluster.start()
        yield cluster
        for broker in cluster.brokers.values():
            assert kind == "apache" or "Traceback" not in broker.log_text()


@pytest.fixture
def transactional(shared_transactional: Cluster) -> Cluster:
    shared_transactional.heal()
    return shared_transactional


@pytest.fixture(scope="module")
def mixed(
    kind: str, zookeeper: ZooKeeperServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A kbroker and an Apache Kafka 3.9.2; internal topics have one replica, on one of them."""
    if kind != "kbroker":
        pytest.skip("has both kinds in any case")
    names = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor",
             "transaction.state.log.min.isr", "min.insync.replicas")  # fmt: skip
    settings = {**SETTINGS, **dict.fromkeys(names, "1")}
    folder = tmp_path_factory.mktemp("mixed")
    with Cluster(folder, zookeeper, ["kbroker", "apache"], settings, chroot="/both") as cluster:
        cluster.start()
        yield cluster
        assert "Traceback" not in cluster.brokers[1].log_text()


def keeper(cluster: Cluster, name: str) -> int:
    """The coordinator of a transactional id, once its log is in sync."""
    found = await_coordinator(cluster, name, TRANSACTION)
    await_in_sync(cluster, STATE)
    return found


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_transaction_goes_on_with_another_coordinator(
    transactional: Cluster, topic: str, how: str
) -> None:
    create(transactional, topic, [1, 2, 3], [2, 3, 1], [3, 1, 2])
    first = keeper(transactional, topic)
    producer = transactional_producer(transactional.bootstrap, topic)
    producer.begin_transaction()
    for partition in range(3):
        producer.produce(topic, str(partition), partition=partition)
    producer.flush(PATIENCE_S)

    getattr(transactional, how)(first)

    survivor = next(number for number in transactional.ids if number != first)
    until(
        lambda: coordinator(transactional, topic, survivor, TRANSACTION) not in (first, -1),
        "another coordinator",
    )
    commit(producer)
    for partition in range(3):
        await_values(transactional, topic, [partition], partition)
    begin_transaction(producer, topic, [])
    producer.produce(topic, "9", partition=0)
    producer.flush(PATIENCE_S)
    producer.abort_transaction(PATIENCE_S)
    transactional.start(first)
    await_in_sync(transactional, STATE, topic)
    await_values(transactional, topic, [0], 0)
    await_same_logs(transactional, STATE, topic)


def test_what_a_coordinator_decided_is_ended_by_the_next(
    transactional: Cluster, topic: str
) -> None:
    """Each is killed when it has told its producer of the commit; markers may be on their way."""
    create(transactional, topic, [1, 2, 3], [2, 3, 1], [3, 1, 2])
    for turn in range(2):
        victim = keeper(transactional, f"{topic}-{turn}")
        producer = transactional_producer(transactional.bootstrap, f"{topic}-{turn}")
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, str(turn), partition=partition)
        producer.flush(PATIENCE_S)
        commit(producer)
        transactional.kill(victim)
        for partition in range(3):
            await_values(transactional, topic, list(range(turn + 1)), partition)
        transactional.start(victim)
        await_in_sync(transactional, STATE, topic)
    await_same_logs(transactional, STATE, topic)


@pytest.mark.parametrize("coordinated_by", [1, 2])
def test_kbroker_and_apache_kafka_end_transactions_for_each_other(
    mixed: Cluster, topic: str, group: str, coordinated_by: int
) -> None:
    """Brokers of both kinds lead a partition; the transaction is kept by one or by the other."""
    mixed.create_topic(topic, 1, 2)
    names = (f"{topic}-{number}" for number in itertools.count())
    name = next(n for n in names if await_coordinator(mixed, n, TRANSACTION) == coordinated_by)
    producer = transactional_producer(mixed.bootstrap, name)
    for turn, end in enumerate(
        (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)
    ):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, str(turn), partition=partition)
        offsets = [TopicPartition(topic, 0, turn)]
        with consumer_of(mixed, group) as consumer:
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, metadata, PATIENCE_S)
        producer.flush(PATIENCE_S)
        end(PATIENCE_S)

    for partition in (0, 1):
        await_values(mixed, topic, [0, 2], partition)
    with consumer_of(mixed, group) as consumer:
        until(
            lambda: consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset == 2,
            "the offset is committed",
        )


@contextlib.contextmanager
def consumer_of(cluster: Cluster, group: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0})
    try:
        yield consumer
    finally:
        consumer.close()


def commit(producer: Producer) -> None:
    """Commit, again where the client says that this is to be done."""

    def is_done() -> bool:
        try:
            producer.commit_transaction(PATIENCE_S)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            return False
        return True

    until(is_done, "the transaction is committed")


def await_values(cluster: Cluster, topic: str, values: list[int], partition: int) -> None:
    until(
        lambda: values_of(cluster.bootstrap, topic, partition=partition) == values,
        f"{values} can be read",
    )
