"""What `kbroker cluster status` tells of brokers that are gone and partitions without leader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.cluster import commands as module
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
)
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse


class OneIsGone:
    """A cluster of brokers 1 and 2, of which 2 has died."""

    topic = "orders"
    partitions = 24

    controller_id = 1

    def __init__(self) -> None:
        self.silent: dict[int, Exception] = {}

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

    def ask_any(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        """Each topic asks for two replicas in sync."""
        setting = DescribeConfigsResponse.DescribeConfigsResourceResult(
            name="min.insync.replicas", value="2"
        )
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResponse.DescribeConfigsResult(
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                    configs=[setting],
                )
                for asked in request.resources
                if asked.configuration_keys == ["min.insync.replicas"]
            ]
        )

    def ask(self, node_id: int, request: object) -> Any:
        if isinstance(request, MetadataRequest):
            return MetadataResponse()
        assert node_id == self.controller_id
        return ListPartitionReassignmentsResponse()


class NobodyLeads(OneIsGone):
    """A cluster that is about to elect its controller."""

    partitions = 1
    controller_id = -1


class Lacking(OneIsGone):
    """Partitions of brokers 1, 2 and 3 that lack this and that; `moves` is the answer about them."""

    moves: Any = ListPartitionReassignmentsResponse(
        topics=[
            ListPartitionReassignmentsResponse.OngoingTopicReassignment(
                name="orders",
                partitions=[
                    ListPartitionReassignmentsResponse.OngoingPartitionReassignment(
                        partition_index=1,
                        replicas=[1, 2, 3],
                        adding_replicas=[3],
                        removing_replicas=[1],
                    )
                ],
            )
        ]
    )

    def describe(self, _names: None) -> MetadataResponse:
        placed = [
            ([1, 2, 3], [1, 2, 3]),
            ([1, 2, 3], [1, 2]),  # moves: broker 3 is added
            ([1, 2, 3], [1, 2]),
            ([1, 2, 3], [1]),
            ([1], [1]),  # cannot have two in sync
        ]
        partitions = [
            MetadataResponse.MetadataResponsePartition(
                partition_index=number, leader_id=1, replica_nodes=replicas, isr_nodes=isr
            )
            for number, (replicas, isr) in enumerate(placed)
        ]
        topic = MetadataResponse.MetadataResponseTopic(name="orders", partitions=partitions)
        return MetadataResponse(cluster_id="C", controller_id=1, topics=[topic])

    def ask(self, node_id: int, _request: object) -> Any:
        assert node_id == self.controller_id
        if isinstance(self.moves, OSError):
            raise self.moves
        return self.moves


class NothingTold(Lacking):
    """A cluster that tells this user neither settings nor moves."""

    moves = ListPartitionReassignmentsResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None
    )

    def ask_any(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        refused = DescribeConfigsResponse.DescribeConfigsResult(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message=None,
            resource_type=request.resources[0].resource_type,
            resource_name=request.resources[0].resource_name,
        )
        return DescribeConfigsResponse(results=[refused])


class ControllerIsGone(Lacking):
    """A cluster whose controller has just died."""

    moves = ConnectionRefusedError("broker 1 is not there")


class GaveUp(Lacking):
    """A cluster whose controller has failed, and is named until another one is elected."""

    moves = ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NOT_CONTROLLER,
        error_message="This is not the correct controller for this cluster.",
    )


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


def test_partitions_are_counted_by_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = status(monkeypatch, Lacking())
    assert shown.exception is None
    lacks = "2 under-replicated, 1 under min.insync.replicas, 1 reassigning"
    assert shown.stderr.splitlines()[-1] == lacks


def test_what_a_user_may_not_know_is_left_out_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = status(monkeypatch, NothingTold())
    assert shown.exception is None
    assert shown.stderr.splitlines() == [
        "min.insync.replicas is not known: orders: TOPIC_AUTHORIZATION_FAILED",
        "broker 1 does not say which partitions are reassigning: CLUSTER_AUTHORIZATION_FAILED",
        "cluster C, controller 1: 0 brokers, 1 topic, 5 partitions, 0 without leader",
        "3 under-replicated",
    ]


def test_a_controller_that_has_died_costs_its_figure_only(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = status(monkeypatch, ControllerIsGone())
    assert shown.exception is None
    told = "broker 1 does not say which partitions are reassigning: broker 1 is not there"
    assert told in shown.stderr
    assert shown.stderr.splitlines()[-1] == "3 under-replicated, 1 under min.insync.replicas"


def test_a_controller_that_has_given_up_its_seat_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where a full disk does not let it write."""
    shown = status(monkeypatch, GaveUp())
    assert shown.exception is None
    told = (
        "broker 1 is named as controller and does not act as one now (its log says why), so that "
        "it is not known which partitions are reassigning"
    )
    assert told in shown.stderr.splitlines()
    assert "NOT_CONTROLLER" not in shown.stderr


def test_a_broker_that_does_not_answer_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    links = OneIsGone()
    links.silent[1] = TimeoutError("h:9092 gave no answer to MetadataRequest")
    shown = status(monkeypatch, links, "--output", "jsonl")
    assert [json.loads(line)["state"] for line in shown.stdout.splitlines()] == [
        "silent",
        "offline",
    ]
    lines = shown.stderr.splitlines()
    assert lines[0] == "broker 1 does not answer: h:9092 gave no answer to MetadataRequest"
    assert lines[-1] == "See kbroker help advertised-address"
    assert not [line for line in lines if "reassigning" in line], "it was the controller"


def test_a_controller_that_only_waits_for_its_zookeeper_is_not_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class WaitsForZooKeeper(OneIsGone):
        def ask(self, node_id: int, request: object) -> Any:
            if isinstance(request, MetadataRequest):
                return MetadataResponse()
            self.silent[node_id] = TimeoutError("no answer in time")
            raise self.silent[node_id]

    shown = status(monkeypatch, WaitsForZooKeeper(), "--output", "jsonl")

    assert json.loads(shown.stdout.splitlines()[0])["state"] == "online"
    lines = shown.stderr.splitlines()
    told = "broker 1 does not say which partitions are reassigning: no answer in time"
    assert told in lines
    assert not [line for line in lines if "does not answer" in line or "advertised" in line]
