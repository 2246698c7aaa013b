"""Which partitions `kbroker cluster status` names, and what it says they lack."""

from __future__ import annotations

import json

import pytest

from kbroker.protocol.messages.metadata import MetadataResponse
from tests.unit.cli.cluster.test_commands import Lacking, NothingTold, OneIsGone, status

HEADS = ["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "STATE"]


class Sound(OneIsGone):
    """A cluster in which nothing is amiss."""

    def describe(self, _names: None) -> MetadataResponse:
        partition = MetadataResponse.MetadataResponsePartition(
            partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1]
        )
        topic = MetadataResponse.MetadataResponseTopic(name="orders", partitions=[partition])
        broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=9092)
        return MetadataResponse(cluster_id="C", controller_id=1, brokers=[broker], topics=[topic])


class ManyLacking(OneIsGone):
    """48 partitions that have no replica in sync; every other one has no leader either."""

    partitions = 48


def test_partitions_are_named_with_what_they_lack_the_worst_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = status(monkeypatch, Lacking(), "--partitions", "--output", "jsonl")

    assert shown.exception is None
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [(row["partition"], row["state"]) for row in rows] == [
        (3, ["under-replicated", "under min.insync.replicas"]),
        (2, ["under-replicated"]),
        (1, ["reassigning"]),
    ]
    assert rows[0] == {
        "topic": "orders", "partition": 3, "leader": 1, "replicas": [1, 2, 3], "isr": [1],
        "state": ["under-replicated", "under min.insync.replicas"],
    }  # fmt: skip


def test_a_table_of_them_follows_that_of_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = status(monkeypatch, Lacking())

    _, partitions = shown.stdout.split("\n\n")
    heads, *rows = partitions.splitlines()
    assert heads.split() == HEADS
    assert rows == [
        "orders  3          1       1,2,3     1    under-replicated,under min.insync.replicas",
        "orders  2          1       1,2,3     1,2  under-replicated",
        "orders  1          1       1,2,3     1,2  reassigning",
    ]


def test_a_table_names_twenty_and_says_how_many_more(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = status(monkeypatch, ManyLacking())
    everything = status(monkeypatch, ManyLacking(), "--partitions")

    _, partitions = shown.stdout.split("\n\n")
    assert len(partitions.splitlines()) == 1 + 20
    assert "and 28 more partitions (all with --partitions)" in shown.stderr.splitlines()
    heads, *rows = everything.stdout.splitlines()
    assert heads.split() == HEADS, "the brokers are left out"
    assert [int(row.split()[1]) for row in rows] == [*range(0, 48, 2), *range(1, 48, 2)]
    assert "more partition" not in everything.stderr


def test_nothing_is_printed_around_no_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(status(monkeypatch, Sound()).stdout.splitlines()) == 2, "the broker, and heads"
    assert status(monkeypatch, Sound(), "--partitions").stdout == ""
    assert status(monkeypatch, Sound(), "--partitions", "--output", "jsonl").stdout == ""


def test_other_outputs_have_the_brokers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = status(monkeypatch, Lacking(), "--output", "csv")

    assert shown.stdout.startswith("broker,state,")
    assert "orders" not in shown.stdout
    assert "more partition" not in shown.stderr


def test_what_was_not_told_is_not_said_of_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = status(monkeypatch, NothingTold(), "--partitions", "--output", "jsonl")

    states = [json.loads(line)["state"] for line in shown.stdout.splitlines()]
    assert states == [["under-replicated"]] * 3
