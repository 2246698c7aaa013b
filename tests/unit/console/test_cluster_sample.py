"""A sample of a cluster takes few requests, and does without brokers that are silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection
from typing import Any, cast

import pytest

from kbroker.client.cluster_links import ClusterLinks
from kbroker.console.cluster_sample import cluster_sample
from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kbroker.protocol.messages.metadata import MetadataResponse

BROKERS = (1, 2, 3)
TOPICS, PARTITIONS = 50, 100


def described() -> MetadataResponse:
    """Topics whose partitions are led in turn; the second replica of each is not in sync."""
    topics = [
        MetadataResponse.MetadataResponseTopic(
            name=f"topic-{topic}",
            partitions=[
                MetadataResponse.MetadataResponsePartition(
                    partition_index=number,
                    leader_id=-1 if topic == number == 0 else 1 + number % 3,
                    replica_nodes=[1 + number % 3, 1],
                    isr_nodes=[1 + number % 3],
                )
                for number in range(PARTITIONS)
            ],
        )
        for topic in range(TOPICS)
    ]
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=node_id, host="h", port=9092)
        for node_id in BROKERS
    ]
    return MetadataResponse(cluster_id="c", controller_id=2, brokers=brokers, topics=topics)


class Links:
    """Brokers that count what they are asked; each partition ends at its number."""

    def __init__(self) -> None:
        self.silent: dict[int, Exception] = {}
        self.sleep: Any = None
        self.asked: Counter[tuple[int, str]] = Counter()
        self.gone: set[int] = set()
        self.refused: type | None = None

    def describe(self, names: Collection[str] | None) -> MetadataResponse:
        assert names is None
        return described()

    def ask(self, node_id: int, request: Any) -> Any:
        self.asked[node_id, type(request).__name__.removesuffix("Request")] += 1
        if node_id in self.gone:
            self.silent[node_id] = ConnectionRefusedError("h:9092: gone")
            raise self.silent[node_id]
        if type(request) is self.refused:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "h:9092 serves it not")
        if isinstance(request, ListGroupsRequest):
            return ListGroupsResponse()
        if isinstance(request, ListOffsetsRequest):
            return _ends(request)
        assert isinstance(request, DescribeLogDirsRequest)
        return _sizes(request)

    def busy(self) -> list[Any]:
        return []

    def close(self) -> None:
        """Nothing is open."""


def _ends(request: ListOffsetsRequest) -> ListOffsetsResponse:
    topics = [
        ListOffsetsResponse.ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsResponse.ListOffsetsPartitionResponse(
                    partition_index=each.partition_index, offset=each.partition_index
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


def _sizes(request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    topics = [
        DescribeLogDirsResponse.DescribeLogDirsTopic(
            name=topic.topic,
            partitions=[
                DescribeLogDirsResponse.DescribeLogDirsPartition(
                    partition_index=number, partition_size=1_000
                )
                for number in topic.partitions
            ],
        )
        for topic in request.topics or []
    ]
    result = DescribeLogDirsResponse.DescribeLogDirsResult(log_dir="d", topics=topics)
    return DescribeLogDirsResponse(results=[result])


@pytest.fixture
def links() -> Links:
    return Links()


@pytest.fixture
async def cluster(links: Links) -> AsyncIterator[ConsoledCluster]:
    made = ConsoledCluster("h:9092", open_links=lambda _: cast(ClusterLinks, links))
    yield made
    made.close()


async def test_each_broker_gets_three_requests_for_5000_partitions(
    cluster: ConsoledCluster, links: Links
) -> None:
    found = await cluster_sample(cluster)

    kinds = ("ListGroups", "ListOffsets", "DescribeLogDirs")
    assert links.asked == Counter({(node_id, kind): 1 for node_id in BROKERS for kind in kinds})
    assert len(found.ends) == len(found.sizes) == TOPICS * PARTITIONS - 1
    assert found.ends[TopicPartition("topic-7", 99)] == 99
    first, second = found.topics["topic-0"], found.topics["topic-1"]
    assert (first.leaderless, second.leaderless, second.under_replicated) == (1, 0, 100)
    assert [(each.broker_id, each.is_controller) for each in found.brokers] == [
        (1, False), (2, True), (3, False),
    ]  # fmt: skip
    assert found.gaps == ()


async def test_a_silent_broker_is_asked_once_and_named(
    cluster: ConsoledCluster, links: Links
) -> None:
    links.gone = {2}

    found = await cluster_sample(cluster)

    assert sum(count for (node_id, _), count in links.asked.items() if node_id == 2) == 1
    assert {found.leaders[place] for place in found.ends} == {1, 3}
    assert [each.silent for each in found.brokers] == [None, "h:9092: gone", None]
    assert found.gaps == ("broker 2 gives no figures: h:9092: gone",)


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (DescribeLogDirsRequest, "the sizes of 4,999 partitions are not known"),
        (ListGroupsRequest, "some figures of groups are not known: the broker is too old"),
    ],
)
async def test_what_brokers_do_not_say_is_named(
    cluster: ConsoledCluster, links: Links, refused: type, said: str
) -> None:
    links.refused = refused

    found = await cluster_sample(cluster)

    (gap,) = found.gaps
    assert gap.startswith(said)
    assert len(found.ends) == TOPICS * PARTITIONS - 1
