"""What `kbroker topic describe` says of replicas that are away."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from kbroker.cli.topic import commands as module
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kbroker.protocol.messages.metadata import MetadataResponse


class Cluster:
    """Two partitions of `orders`; `offline` are the replicas of the first one that are away."""

    def __init__(self, offline: list[int]) -> None:
        self.offline = offline
        self.silent: dict[int, Exception] = {}

    def describe(self, _names: Sequence[str] | None) -> MetadataResponse:
        partitions = [
            MetadataResponse.MetadataResponsePartition(
                partition_index=number,
                leader_id=1,
                replica_nodes=[1, 2],
                isr_nodes=[1],
                offline_replicas=offline,
            )
            for number, offline in enumerate((self.offline, []))
        ]
        topic = MetadataResponse.MetadataResponseTopic(name="orders", partitions=partitions)
        return MetadataResponse(controller_id=1, topics=[topic])

    def ask(self, _node_id: int, _request: object) -> object:
        raise ConnectionRefusedError("no figures")

    def ask_any(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        (asked,) = request.resources
        result = DescribeConfigsResponse.DescribeConfigsResult(
            resource_type=asked.resource_type, resource_name=asked.resource_name
        )
        return DescribeConfigsResponse(results=[result])


def described(monkeypatch: pytest.MonkeyPatch, offline: list[int], output: str) -> str:
    @contextmanager
    def connected(_bootstrap: str) -> Iterator[Cluster]:
        yield Cluster(offline)

    monkeypatch.setattr(module, "cluster_links", connected)
    done = CliRunner().invoke(module.topic, ["describe", "--output", output], standalone_mode=False)
    assert done.exception is None
    return done.stdout


def test_rows_have_leader_replicas_those_in_sync_and_those_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [json.loads(line) for line in described(monkeypatch, [2], "jsonl").splitlines()]

    assert [(row["leader"], row["replicas"], row["isr"], row["offline"]) for row in rows] == [
        (1, [1, 2], [1], [2]),
        (1, [1, 2], [1], []),
    ]


@pytest.mark.parametrize(("offline", "is_shown"), [([2], True), ([], False)])
def test_a_table_has_a_column_of_replicas_that_are_away_where_there_are_any(
    monkeypatch: pytest.MonkeyPatch, offline: list[int], is_shown: bool
) -> None:
    heads = described(monkeypatch, offline, "table").split("\n", 1)[0].split()

    assert ("OFFLINE" in heads) is is_shown
    assert heads[4:6] == ["REPLICAS", "ISR"]
