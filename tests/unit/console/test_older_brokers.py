"""Brokers that are too old for some questions: the answers name what they lack."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any, cast

import pytest

from kbroker.client.cluster_links import ClusterLinks
from kbroker.console.broker import broker
from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.console.groups import group, groups
from kbroker.console.overview import overview
from kbroker.console.pages import Wanted
from kbroker.console.topic import topic
from kbroker.console.topics import topics
from kbroker.console.transactions import producers, transactions
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kbroker.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kbroker.protocol.messages.metadata import MetadataResponse
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

Topic = MetadataResponse.MetadataResponseTopic
Partition = MetadataResponse.MetadataResponsePartition


def described() -> MetadataResponse:
    """A topic with two partitions on broker 1; the second has a replica that is away."""
    partitions = [
        Partition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1]),
        Partition(partition_index=1, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1]),
    ]
    return MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(node_id=1, host="b", port=9092)],
        controller_id=1,
        topics=[Topic(name="t", partitions=partitions)],
    )


def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Each partition begins at 0 and ends at 5."""
    rows = [
        ListOffsetsResponse.ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsResponse.ListOffsetsPartitionResponse(
                    partition_index=each.partition_index, offset=0 if each.timestamp == -2 else 5
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=rows)


def committed(_: OffsetFetchRequest) -> OffsetFetchResponse:
    partition = OffsetFetchResponse.OffsetFetchResponsePartition(
        partition_index=0, committed_offset=2
    )
    found = OffsetFetchResponse.OffsetFetchResponseTopic(name="t", partitions=[partition])
    return OffsetFetchResponse(topics=[found])


def empty_group(_: DescribeGroupsRequest) -> DescribeGroupsResponse:
    found = DescribeGroupsResponse.DescribedGroup(group_id="g", group_state="Empty")
    return DescribeGroupsResponse(groups=[found])


class OldLinks:
    """Links to a broker that answers few requests."""

    def __init__(self) -> None:
        self.silent: dict[int, Exception] = {}
        self.sleep: Any = None
        self.answers: dict[type, Any] = {
            ApiVersionsRequest: lambda _: ApiVersionsResponse(),
            ListOffsetsRequest: offsets,
            ListGroupsRequest: lambda _: ListGroupsResponse(
                groups=[ListGroupsResponse.ListedGroup(group_id="g", protocol_type="consumer")]
            ),
            FindCoordinatorRequest: lambda _: FindCoordinatorResponse(node_id=1),
            DescribeGroupsRequest: empty_group,
            OffsetFetchRequest: committed,
        }

    def describe(self, _names: Collection[str] | None) -> MetadataResponse:
        return described()

    def topic(self, _name: str) -> Any:
        return type("View", (), {"leaders": {}})

    def ask(self, _node_id: int, request: Any) -> Any:
        return self.ask_any(request)

    def ask_any(self, request: Any) -> Any:
        answer = self.answers.get(type(request))
        if answer is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"b:9092 serves no {request.spec.name}")
        return answer(request)

    def link(self, _node_id: int) -> Any:
        return self

    def busy(self) -> list[Any]:
        return []

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
async def cluster() -> AsyncIterator[ConsoledCluster]:
    made = ConsoledCluster("b:9092", lambda _: cast("ClusterLinks", OldLinks()))
    yield made
    made.close()


async def test_the_overview_shows_what_is_known(cluster: ConsoledCluster) -> None:
    found = await overview(cluster)

    assert (found.cluster_id, found.level, found.partitions) == (None, None, 2)
    assert found.under_replicated.first == (TopicPartition("t", 1),)
    assert (found.under_min_isr, found.reassigning) == (None, None)
    assert [gap.partition(" are not known: ")[0] for gap in found.gaps] == [
        "moves of partitions", "values of min.insync.replicas", "settings of brokers",
    ]  # fmt: skip
    assert all("the broker is too old to say it (b:9092 serves no " in gap for gap in found.gaps)


async def test_topics_have_records_and_no_sizes(cluster: ConsoledCluster) -> None:
    found = await topics(cluster, Wanted())

    (row,) = found.page.rows
    assert (row.records, row.size_bytes, row.under_replicated) == (10, None, 1)
    assert found.gaps == (
        "the sizes of 2 partitions are not known: their brokers are older than Kafka 1.0, or do "
        "not let this user see them",
    )


async def test_a_topic_has_partitions_and_no_settings(cluster: ConsoledCluster) -> None:
    found = await topic(cluster, "t")

    assert [each.end_offset for each in found.partitions] == [5, 5]
    assert found.settings is None
    assert any(gap.startswith("settings of the topic are not known") for gap in found.gaps)


async def test_a_broker_has_neither_settings_nor_disks(cluster: ConsoledCluster) -> None:
    found = await broker(cluster, 1)

    assert (found.settings, found.disks) == (None, None)
    assert len(found.gaps) == 2


async def test_groups_have_no_states_and_a_lag_all_the_same(cluster: ConsoledCluster) -> None:
    listed = await groups(cluster, Wanted())
    found = await group(cluster, "g")

    assert [(row.group, row.state, row.type) for row in listed.page.rows] == [("g", None, None)]
    assert (found.state, found.lag) == ("Empty", 3)


async def test_transactions_and_producers_are_named_as_not_known(
    cluster: ConsoledCluster,
) -> None:
    listed = await transactions(cluster, Wanted())
    remembered = await producers(cluster, "t")

    assert listed.page.rows == remembered.producers == ()
    assert listed.gaps == (
        "transactional ids are not known: the broker is too old to say it "
        "(b:9092 serves no ListTransactionsRequest)",
    )
    assert remembered.gaps == (
        "producers are not known: the broker is too old to say it "
        "(b:9092 serves no DescribeProducersRequest)",
    )
