"""What `kbroker cluster elect` asks the controller, and says of each partition."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.cluster import elect as module
from kbroker.errors import ErrorCode, Trouble
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kbroker.protocol.messages.metadata import MetadataResponse

NEEDLESS, NOT_THERE = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


class Cluster:
    """Brokers 1 and 2 of three. Partitions 0 to 3 of `orders`, whose leaders are `leaders`; the
    controller answers with `codes` by partition, and those it elects have `elected` from then on.
    """

    def __init__(
        self, leaders: list[int], codes: dict[int, ErrorCode], elected: int = 2, code: int = 0
    ) -> None:
        self.leaders, self.codes, self.elected, self.code = leaders, codes, elected, code
        self.asked: list[ElectLeadersRequest] = []

    replicas = ([1, 2], [2, 1], [3, 1], [2, 1])
    isr = ([1, 2], [1, 2], [1], [1])

    def describe(self, names: list[str] | None) -> MetadataResponse:
        partitions = [
            MetadataResponse.MetadataResponsePartition(
                partition_index=number, leader_id=leader, replica_nodes=replicas, isr_nodes=isr
            )
            for number, (leader, replicas, isr) in enumerate(
                zip(self.leaders, self.replicas, self.isr, strict=True)
            )
        ]
        topic = MetadataResponse.MetadataResponseTopic(name="orders", partitions=partitions)
        online = [MetadataResponse.MetadataResponseBroker(node_id=node) for node in (1, 2)]
        topics = [] if names == [] else [topic]
        return MetadataResponse(controller_id=1, brokers=online, topics=topics)

    def link(self, node_id: int) -> Cluster:
        assert node_id == 1
        return self

    def ask(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        self.asked.append(request)
        for number, code in self.codes.items():
            if code == ErrorCode.NONE:
                self.leaders[number] = self.elected
        rows = [
            ElectLeadersResponse.PartitionResult(
                partition_id=number, error_code=code, error_message="as Kafka says it"
            )
            for number, code in self.codes.items()
        ]
        result = ElectLeadersResponse.ReplicaElectionResult(topic="orders", partition_result=rows)
        return ElectLeadersResponse(error_code=self.code, replica_election_results=[result])


def elect(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, *options: str) -> Result:
    @contextmanager
    def connected(_bootstrap: str) -> Iterator[Cluster]:
        yield cluster

    monkeypatch.setattr(module, "cluster_links", connected)
    arguments = [*options, "--output", "jsonl"]
    return CliRunner().invoke(module.elect, arguments, standalone_mode=False)


def rows(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_all_partitions_are_asked_for_where_no_topic_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster([1, 1, 1, 1], {1: ErrorCode.NONE})

    result = elect(monkeypatch, cluster)

    (asked,) = cluster.asked
    assert (asked.election_type, asked.topic_partitions) == (0, None)
    assert result.exception is None
    assert rows(result) == [{"topic": "orders", "partition": 1, "old_leader": 1, "leader": 2}]
    assert result.stderr == "1 leader elected, 3 partitions had the right leader before\n"


def test_the_partitions_of_a_topic_are_asked_for_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([1, 2, 1, 1], dict.fromkeys(range(4), NEEDLESS))

    result = elect(monkeypatch, cluster, "orders")

    (topic,) = cluster.asked[0].topic_partitions or []
    assert (topic.topic, topic.partitions) == ("orders", [0, 1, 2, 3])
    assert (rows(result), result.exception) == ([], None)
    assert result.stderr == "0 leaders elected, 4 partitions had the right leader before\n"


def test_why_a_first_replica_cannot_lead_is_said_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    result = elect(monkeypatch, Cluster([1, 2, 1, 1], {2: NOT_THERE, 3: NOT_THERE}))

    assert isinstance(result.exception, CommandError)
    assert result.stderr.splitlines() == [
        "0 leaders elected, 2 partitions had the right leader before",
        "Error: orders-2: broker 3, its first replica, is not there",
    ]
    assert result.exception.message == "orders-3: broker 2, its first replica, is not in sync"


def test_an_unclean_election_names_who_leads_now_and_that_records_may_be_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = {2: ErrorCode.NONE, 3: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    cluster = Cluster([1, 2, -1, -1], codes, elected=1)

    result = elect(monkeypatch, cluster, "--unclean")

    assert cluster.asked[0].election_type == 1
    assert rows(result) == [{"topic": "orders", "partition": 2, "old_leader": None, "leader": 1}]
    assert result.stderr.splitlines() == [
        "1 leader elected, 2 partitions had a leader before",
        "records may be lost: who leads now was perhaps not in sync",
    ]
    assert isinstance(result.exception, CommandError)
    assert result.exception.message == "orders-3: none of its replicas is there (brokers 2, 1)"
    assert result.exception.trouble is Trouble.NO_LEADER


def test_a_topic_that_is_not_there_is_refused_with_the_near_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster([1, 2, 1, 1], {})

    result = elect(monkeypatch, cluster, "ordes")

    assert "no such topic: ordes, did you mean orders?" in str(result.exception)
    assert cluster.asked == []


def test_a_request_that_is_refused_whole_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Cluster([1, 2, 1, 1], {}, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    result = elect(monkeypatch, refused)

    assert "CLUSTER_AUTHORIZATION_FAILED" in str(result.exception)
