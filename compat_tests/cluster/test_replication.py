"""Topics with three replicas: brokers are killed, paused and moved under load, and afterwards no
acknowledged record is lost or doubled, every replica is in sync, and all have the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from compat_tests.clients.writers import LibrdkafkaWriter
from compat_tests.cluster.changing_rounds import CLEANER, ChangingRounds
from compat_tests.cluster.processes import Cluster
from compat_tests.cluster.replicas import (
    SETTINGS,
    await_coordinator,
    await_in_sync,
    await_leaders_without,
    await_same_logs,
    coordinator,
    create,
    elect_preferred,
    reassign,
)
from compat_tests.cluster.replication_rounds import run
from compat_tests.faults.kill_rounds import check, read_all
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import ZooKeeperServers

OFFSETS = "__consumer_offsets"
CHANGES = ["message.timestamp.type=LogAppendTime", "move_leaders", "compression.type=gzip", "compact",
           "lower_the_limit", "compression.type=producer", "require_all", "restart",
           "message.timestamp.type=CreateTime", "cleanup.policy=delete"]  # fmt: skip
FAULTS = ["kill_leader", "kill_and_start", "kill_follower", "pause_leader", "kill_leader",
          "kill_and_start", "kill_leader"]  # fmt: skip


@pytest.fixture(scope="module")
def shared_replicated(
    kind: str, zookeeper: ZooKeeperServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three brokers whose topics have three replicas, two of which must be in sync."""
    folder = tmp_path_factory.mktemp("replicated")
    settings = SETTINGS | CLEANER
    with Cluster(folder, zookeeper, [kind] * 3, settings, chroot="/replicated") as cluster:
        cluster.start()
        yield cluster
        for broker in cluster.brokers.values():
            assert kind == "apache" or "Traceback" not in broker.log_text()


@pytest.fixture
def replicated(shared_replicated: Cluster) -> Cluster:
    shared_replicated.heal()
    return shared_replicated


def test_nothing_acknowledged_is_lost_while_brokers_are_killed_and_paused(
    kind: str, zookeeper: ZooKeeperServers, tmp_path: Path
) -> None:
    rounds = run(tmp_path, zookeeper, FAULTS, 5, kind=kind)

    assert rounds.faults.total() == len(FAULTS)
    assert rounds.compared_bytes > 0
    assert rounds.acknowledged > 100


def test_nothing_acknowledged_is_lost_while_settings_and_roles_change(replicated: Cluster) -> None:
    rounds = ChangingRounds(replicated, "changing", seed=5)

    rounds.run(CHANGES)

    assert rounds.changes.total() == len(CHANGES)


def test_committed_offsets_survive_the_loss_of_their_coordinator(
    replicated: Cluster, topic: str, group: str
) -> None:
    create(replicated, topic, [1, 2, 3])
    first = await_coordinator(replicated, group)
    await_in_sync(replicated, OFFSETS)
    commit(replicated, topic, group, 4711)

    replicated.kill(first)

    survivor = next(number for number in replicated.ids if number != first)
    until(lambda: coordinator(replicated, group, through=survivor) not in (first, -1), "another")
    assert committed(replicated, topic, group) == 4711
    commit(replicated, topic, group, 4712)
    replicated.start(first)
    await_in_sync(replicated, OFFSETS)
    assert committed(replicated, topic, group) == 4712
    await_same_logs(replicated, OFFSETS)


def commit(cluster: Cluster, topic: str, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(cluster: Cluster, topic: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return int(found.offset)


def test_partitions_move_and_leaders_return_under_load(replicated: Cluster, topic: str) -> None:
    create(replicated, topic, [1, 2], [2, 3])
    writer = LibrdkafkaWriter(replicated.bootstrap, topic, 300)
    until(lambda: writer.acknowledged.count > 100, "it is written to")

    reassign(replicated, topic, {0: [3, 2], 1: [3, 1]})  # each adds a broker and removes another
    seen = writer.acknowledged.count
    until(lambda: writer.acknowledged.count > seen + 100, "it is written to after the move")
    assert not (replicated.brokers[1].data / f"{topic}-0").exists()
    replicated.kill(3)
    await_leaders_without(replicated, topic, 3)
    replicated.start(3)
    await_in_sync(replicated, topic)
    elect_preferred(replicated, topic, 0, 1)
    replicated.wait_for_leaders(topic, {0: 3, 1: 3})
    seen = writer.acknowledged.count
    until(lambda: writer.acknowledged.count > seen + 100, "it is written to after the election")

    writer.finish()
    check(writer, read_all(replicated.bootstrap, topic))
    assert await_same_logs(replicated, topic) > 0
