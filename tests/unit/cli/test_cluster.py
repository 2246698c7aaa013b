"""What `kbroker cluster status` tells of brokers that are gone and partitions without leader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from kbroker.cli import cluster as module
from kbroker.cli.connection import CommandError
from kbroker.protocol.messages.metadata import MetadataResponse


class OneIsGone:
    """A cluster of brokers 1 and 2, of which 2 has died."""

    topic = "orders"
    partitions = 24

    controller_id = 1

    def describe(self, _names: None) -> MetadataResponse:
        broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=9092, rack="r")
        partitions = [
            MetadataResponse.MetadataResponsePartition(
                partition_index=p, leader_id=1 if p % 2 else -1, replica_nodes=[2 - p % 2]
            )
            for p in range(self.partitions)
        ]
        topic = MetadataResponse.MetadataResponseTopic(name=self.topic, partitions=partitions)
        return MetadataResponse(
            cluster_id="C", controller_id=self.controller_id, brokers=[broker], topics=[topic]
        )


class NobodyLeads(OneIsGone):
    """A cluster that is about to elect its controller."""

    partitions = 1
    controller_id = -1


def status(monkeypatch: pytest.MonkeyPatch, client: OneIsGone, *options: str) -> Result:
    @contextmanager
    def connected(_bootstrap: str) -> Iterator[OneIsGone]:
        yield client

    monkeypatch.setattr(module, "cluster_links", connected)
    return CliRunner().invoke(module.cluster, ["status", *options], standalone_mode=False)


def test_a_broker_that_is_gone_is_shown_with_what_it_held(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = status(monkeypatch, OneIsGone(), "--output", "jsonl")
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert rows == [
        {
            "broker": 1, "state": "online", "address": "h:9092", "rack": "r", "controller": True,
            "leads": 12, "replicas": 12, "leaderless": 0,
        },
        {
            "broker": 2, "state": "offline", "address": None, "rack": None, "controller": False,
            "leads": 0, "replicas": 12, "leaderless": 12,
        },
    ]  # fmt: skip


def test_partitions_without_leader_are_named_and_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = status(monkeypatch, OneIsGone())
    assert isinstance(shown.exception, CommandError)
    assert shown.exception.code == 1
    named = ", ".join(sorted(f"orders-{p}" for p in range(0, 24, 2))[:10])
    assert shown.exception.message == f"no leader: {named} and 2 more"
    assert "cluster C, controller 1: 1 broker, 1 topic, 24 partitions, 12 without" in shown.stderr


def test_a_cluster_without_controller_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = status(monkeypatch, NobodyLeads())
    assert "cluster C, no controller: 1 broker, 1 topic, 1 partition, 1 without" in shown.stderr
    assert "no leader: orders-0" in str(shown.exception)
