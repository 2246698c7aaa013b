"""Topics with replicas on kbroker and on Apache Kafka 3.9.2: each follows the other, under either's
controller, and both have the same bytes afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from compat_tests.clients.every_client import CODECS, samples
from compat_tests.cluster.diverging import fall_behind
from compat_tests.cluster.mixed_rounds import run
from compat_tests.cluster.processes import Cluster
from compat_tests.cluster.replicas import (
    SETTINGS,
    await_coordinator,
    await_in_sync,
    await_same_logs,
    coordinator,
    create,
    elect_preferred,
    log_bytes,
    reassign,
)
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import ZooKeeperServers

pytestmark = pytest.mark.java

KBROKER, APACHE = 1, 2
CONTROLLERS = pytest.mark.parametrize("controller", [KBROKER, APACHE], ids=["kbroker", "apache"])
TWO_REPLICAS = {
    "offsets.topic.replication.factor": "2",
    "default.replication.factor": "2",
    "min.insync.replicas": "1",
    "log.cleaner.backoff.ms": "200",
}
NO_OFFSET = -1001
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
FAULTS = ["move_controller", "replace", "move_leaders", "kill_and_replace",
          "move_coordinator"]  # fmt: skip


@pytest.fixture(scope="module")
def shared_pair(
    target: str, zookeeper: ZooKeeperServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """One broker of each kind."""
    if target != "kbroker":
        pytest.skip("puts kbroker and Apache Kafka together")
    folder, kinds = tmp_path_factory.mktemp("pair"), ["kbroker", "apache"]
    settings = SETTINGS | TWO_REPLICAS
    with Cluster(folder, zookeeper, kinds, settings, chroot="/pair") as cluster:
        cluster.start()
        yield cluster
        assert "Traceback" not in cluster.brokers[KBROKER].log_text()


@pytest.fixture
def pair(shared_pair: Cluster) -> Cluster:
    shared_pair.heal()
    return shared_pair


@CONTROLLERS
def test_each_follows_the_other_and_stores_the_same_bytes(
    pair: Cluster, topic: str, controller: int
) -> None:
    """Every codec, and keys, values and headers of every shape; partition 0 is led by kbroker."""
    pair.make_controller(controller)
    create(pair, topic, [KBROKER, APACHE], [APACHE, KBROKER], segment_bytes="16384")

    for codec in CODECS:
        write_samples(pair, topic, codec)

    await_in_sync(pair, topic)
    assert await_same_logs(pair, topic) > 100_000


def lead(cluster: Cluster, topic: str, leader: int, *others: int) -> None:
    """Let one broker lead all partitions of a topic."""
    order = [leader, *others]
    partitions = sorted(cluster.tree.assignment(topic) or {})
    await_in_sync(cluster, topic)
    reassign(cluster, topic, dict.fromkeys(partitions, order))
    elect_preferred(cluster, topic, *partitions)
    cluster.wait_for_leaders(topic, dict.fromkeys(partitions, leader))


def test_a_group_keeps_its_commits_when_its_coordinator_is_of_the_other_kind(
    pair: Cluster, topic: str, group: str
) -> None:
    create(pair, topic, [KBROKER, APACHE])
    await_coordinator(pair, group)

    for offset, leader, other in ((1, KBROKER, APACHE), (2, APACHE, KBROKER), (3, KBROKER, APACHE)):
        lead(pair, OFFSETS, leader, other)
        until(lambda n=leader: coordinator(pair, group, through=n) == n, "it coordinates")
        consumer = Consumer({"bootstrap.servers": pair.bootstrap, "group.id": group})
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
        assert found.offset == (offset - 1 or NO_OFFSET)
        consumer.commit(
            offsets=[TopicPartition(topic, 0, offset, metadata=f"at {leader}")], asynchronous=False
        )
        consumer.close()

    await_in_sync(pair, OFFSETS)
    await_same_logs(pair, OFFSETS)


def test_transactions_are_copied_and_their_aborted_records_stay_hidden(
    pair: Cluster, topic: str
) -> None:
    """Apache Kafka alone coordinates transactions: kbroker is away meanwhile, and catches up."""
    create(pair, topic, [APACHE, KBROKER], segment_bytes="16384")
    create(pair, TRANSACTIONS, *([APACHE, KBROKER],) * 3, cleanup_policy="compact")
    pair.stop(KBROKER)
    committed = transact(pair.address(APACHE), topic)
    pair.start(KBROKER)

    lead(pair, topic, KBROKER, APACHE)

    assert [message.value() for message in read_to_end(pair, topic)] == committed
    await_same_logs(pair, topic, TRANSACTIONS)
    kept = [
        {path.name: path.read_bytes() for path in folder.glob("*.txnindex") if path.stat().st_size}
        for folder in (pair.brokers[number].data / f"{topic}-0" for number in (KBROKER, APACHE))
    ]
    assert kept[0] == kept[1] != {}


def transact(bootstrap: str, topic: str) -> list[bytes]:
    """Write transactions of 50 records; the values of those that were not aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 5})
    producer.init_transactions(30)
    committed: list[bytes] = []
    for number in range(12):
        producer.begin_transaction()
        values = [b"%d-%d %s" % (number, n, b"x" * 100) for n in range(50)]
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0
        if number % 3 == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            committed += values
    return committed


def read_to_end(cluster: Cluster, topic: str) -> list[Message]:
    """Records of partition 0 as a consumer sees them that hides aborted transactions."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": topic, "enable.auto.commit": False,
         "isolation.level": "read_committed", "enable.partition.eof": True}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append(message)
    assert message is not None, f"no end of {topic} after 30 s"
    assert message.error() == KafkaError._PARTITION_EOF
    consumer.close()
    return found


def test_both_compact_a_topic_to_the_same_records(pair: Cluster, topic: str) -> None:
    """Each when it wants to: what is left of each key is the same at the same offset."""
    create(
        pair, topic, [KBROKER, APACHE], cleanup_policy="compact", segment_bytes="16384",
        min_cleanable_dirty_ratio="0.01", min_compaction_lag_ms="0",
    )  # fmt: skip
    producer = Producer({"bootstrap.servers": pair.bootstrap, "batch.num.messages": 20})
    for number in range(3_000):
        value = None if number % 50 == 7 else b"%d %s" % (number, b"v" * 60)
        producer.produce(topic, value, b"%d" % (number % 100), 0)
    assert producer.flush(30) == 0
    until(lambda: all(len(log_bytes(pair, n, f"{topic}-0")) < 60_000 for n in pair.ids), "cleaned")
    at_kbroker = latest(pair, topic)

    lead(pair, topic, APACHE, KBROKER)

    assert latest(pair, topic) == at_kbroker
    assert len(at_kbroker) == 100


def latest(cluster: Cluster, topic: str) -> dict[bytes | None, tuple[int | None, bytes | None]]:
    """Offset and value of each key."""
    return {m.key(): (m.offset(), m.value()) for m in read_to_end(cluster, topic)}


@CONTROLLERS
def test_a_replica_that_was_killed_follows_a_log_that_starts_amid_a_batch(
    pair: Cluster, topic: str, controller: int
) -> None:
    """The controller leads, and the broker of the other kind comes back."""
    pair.make_controller(controller)
    killed = APACHE if controller == KBROKER else KBROKER

    fall_behind(pair, topic, controller, killed, random.Random(1))


@pytest.mark.timeout(300)  # a JVM starts three times
def test_nothing_is_lost_while_brokers_of_both_kinds_fail_and_replace_each_other(
    target: str, zookeeper: ZooKeeperServers, tmp_path: Path
) -> None:
    if target != "kbroker":
        pytest.skip("puts kbroker and Apache Kafka together")
    kinds: Sequence[str] = ["kbroker", "apache", "kbroker"]

    rounds = run(tmp_path, zookeeper, kinds, FAULTS, seed=1, has_java=False)

    assert rounds.faults.total() == len(FAULTS)
    assert rounds.compared_bytes > 0


def write_samples(cluster: Cluster, topic: str, codec: str) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True,
         "compression.type": codec, "linger.ms": 5, "batch.num.messages": 20}
    )  # fmt: skip
    for partition in (0, 1):
        for sample in samples(200):
            producer.produce(
                topic, sample.value, sample.key, partition, headers=list(sample.headers),
                timestamp=sample.timestamp_ms,
            )  # fmt: skip
    assert producer.flush(60) == 0
