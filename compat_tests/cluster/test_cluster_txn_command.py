"""`kbroker txn` where a kbroker and an Apache Kafka 3.9.2 share what there is to see."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests.clients.every_client import begin_transaction, transactional_producer
from compat_tests.clients.hanging_transactions import UNVERIFIED, hang
from compat_tests.cluster.processes import Cluster
from compat_tests.cluster.replicas import SETTINGS, TRANSACTION, await_coordinator
from compat_tests.commands.command_line import FINE, ITEM_FAILED, Done, run
from compat_tests.running.waiting import PATIENCE_S
from compat_tests.running.zookeeper_servers import ZooKeeperServers

KBROKER, APACHE = 1, 2
ONE_REPLICA = (
    "offsets.topic.replication.factor", "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr", "min.insync.replicas",
)  # fmt: skip


@pytest.fixture(scope="module")
def both(
    kind: str, zookeeper: ZooKeeperServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Internal topics have one replica, on one of them; records of transactions are unverified."""
    if kind != "kbroker":
        pytest.skip("has both kinds in any case")
    settings = {
        **SETTINGS, **dict.fromkeys(ONE_REPLICA, "1"), **dict([UNVERIFIED.split("=")]),
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("seen")
    with Cluster(folder, zookeeper, ["kbroker", "apache"], settings, chroot="/seen") as cluster:
        cluster.start()
        yield cluster
        assert "Traceback" not in cluster.brokers[KBROKER].log_text()


def txn(cluster: Cluster, through: int, *arguments: str) -> Done:
    return run("txn", *arguments, bootstrap=cluster.address(through))


def rows(done: Done) -> dict[Any, dict[str, Any]]:
    """By transactional id, or by partition."""
    found = [json.loads(line) for line in done.lines()]
    return {row.get("transactional_id", row.get("partition")): row for row in found}


def kept_by(cluster: Cluster, broker: int, topic: str) -> str:
    """A transactional id that a broker coordinates."""
    names = (f"{topic}-{number}" for number in range(100))
    return next(name for name in names if await_coordinator(cluster, name, TRANSACTION) == broker)


@pytest.fixture
def producers(both: Cluster, topic: str) -> dict[str, Producer]:
    """By id, one at each coordinator, with transactions in partitions of both leaders."""
    both.create_topic(topic, KBROKER, APACHE)
    made = {}
    for broker in (KBROKER, APACHE):
        name = kept_by(both, broker, topic)
        made[name] = transactional_producer(both.bootstrap, name)
        begin_transaction(made[name], topic, [])
        for partition in (0, 1):
            made[name].produce(topic, name, partition=partition)
        assert made[name].flush(PATIENCE_S) == 0
    return made


@pytest.mark.parametrize("through", [KBROKER, APACHE])
def test_the_ids_of_both_coordinators_are_shown_by_either(
    both: Cluster, topic: str, producers: dict[str, Producer], through: int
) -> None:
    listed = rows(txn(both, through, "list", "--state", "Ongoing", "--output", "jsonl"))
    described = rows(txn(both, through, "describe", *producers, "--output", "jsonl"))

    assert [listed[name]["coordinator"] for name in producers] == [KBROKER, APACHE]
    assert [described[name]["partitions"] for name in producers] == [
        [f"{topic}-0", f"{topic}-1"]
    ] * 2
    for producer in producers.values():
        producer.commit_transaction(PATIENCE_S)


@pytest.mark.parametrize("through", [KBROKER, APACHE])
def test_what_hangs_at_either_leader_is_found_and_aborted(
    both: Cluster, topic: str, producers: dict[str, Producer], through: int
) -> None:
    for partition, leader in enumerate((KBROKER, APACHE)):
        with both.wire(leader) as wire:
            hang(wire, topic, 4711, 2, partition=partition)
    search = ("find-hanging", topic, "--max-transaction-timeout", "1ms")

    found = txn(both, through, *search, "--output", "jsonl")
    aborted = [
        txn(both, through, "abort", topic, "--partition", str(each), "--start-offset", "2").code
        for each in (0, 1)
    ]
    after = txn(both, through, *search)
    for producer in producers.values():
        producer.commit_transaction(PATIENCE_S)

    assert found.code == ITEM_FAILED
    assert {row["producer_id"] for row in rows(found).values()} == {4711}
    assert sorted(rows(found)) == [0, 1]
    assert (aborted, after.code, after.out) == ([FINE, FINE], FINE, "")


@pytest.mark.parametrize("silent", [KBROKER, APACHE])
def test_nothing_is_said_to_hang_while_a_coordinator_is_silent(
    both: Cluster, topic: str, silent: int
) -> None:
    other = KBROKER + APACHE - silent
    both.create_topic(topic, other)
    await_coordinator(both, topic, TRANSACTION)
    with both.wire(other) as wire:
        hang(wire, topic, 4711, 0)

    both.pause(silent)
    found = txn(both, other, "find-hanging", topic)
    refused = txn(both, other, "abort", topic, "--partition", "0", "--start-offset", "0")
    both.resume(silent)

    # Until the cluster notices that the broker is away, and then.
    reason = rf"(broker {silent} does not say which|__transaction_state-\d.* no leader)"
    assert (found.code, found.out) == (ITEM_FAILED, "")
    assert re.match(f"Error: {reason}", found.err)
    assert re.match(f"Error: nothing was aborted: {reason}", refused.err)
    assert txn(both, other, "find-hanging", topic).code == ITEM_FAILED
