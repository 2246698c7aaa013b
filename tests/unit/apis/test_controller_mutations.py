"""Topics that clients with a limit create, grow and delete, through the controller or another
broker.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kbroker.errors import ErrorCode
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.request import Request, Response
from kbroker.quotas.client_limits import ClientLimits
from kbroker.quotas.client_quota_manager import ClientQuotaManager
from kbroker.quotas.quota_entity import QuotaEntity
from kbroker.quotas.rate import Windows
from tests.fakes.clusters.forwarding_cluster import ForwardingCluster
from tests.fakes.running.virtual_time import VirtualTime

NONE, REFUSED = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
CREATE, GROW, DELETE = 6, 3, 5  # the first versions that know the refusal
CONTROLLER, OTHER = 0, 1
pytestmark = pytest.mark.virtual_time


class LimitedCluster:
    """Two brokers; clients make one change in a second, ten at once."""

    def __init__(self, cluster: ForwardingCluster) -> None:
        self.cluster = cluster
        self.time = VirtualTime()
        limits = ClientLimits()
        limits.put(QuotaEntity(user="ANONYMOUS"), {"controller_mutation_rate": 1})
        for broker_id in cluster.brokers:
            broker = cluster.broker(broker_id)
            quotas = ClientQuotaManager(limits, Windows(10, 1_000))
            broker.apis.use(replace(broker.services, quotas=quotas, clock=self.time))

    async def create(
        self, *partitions: int, version: int = CREATE, asked: int = OTHER, **fields: Any
    ) -> tuple[list[int], int]:
        """The codes of topics with so many partitions, and for how long the client pauses."""
        topics = [
            CreateTopicsRequest.CreatableTopic(
                name=f"t{count}", num_partitions=count, replication_factor=1
            )
            for count in partitions
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=5_000, **fields)
        answer = await self.cluster.broker(asked).ask(request, version)
        return [topic.error_code for topic in answer.topics], answer.throttle_time_ms


@pytest.fixture
async def limited(forwarding_cluster: ForwardingCluster) -> LimitedCluster:
    return LimitedCluster(forwarding_cluster)


@pytest.mark.parametrize("asked", [CONTROLLER, OTHER])
async def test_what_goes_beyond_the_limit_is_refused_once_it_is_used_up(
    limited: LimitedCluster, asked: int
) -> None:
    assert await limited.create(8, asked=asked) == ([NONE], 0)
    assert await limited.create(7, asked=asked) == ([NONE], 0)
    assert await limited.create(1, asked=asked) == ([REFUSED], 5_000)
    limited.time.advance(4_999)
    assert await limited.create(2, asked=asked) == ([REFUSED], 1)
    limited.time.advance(1)
    assert await limited.create(1, asked=asked) == ([NONE], 0)
    assert not limited.cluster.broker(asked).metadata.contains_topic("t2")


async def test_some_topics_of_a_request_are_refused_and_leave_nothing_behind(
    limited: LimitedCluster,
) -> None:
    assert await limited.create(9, 5, 3, 2) == ([NONE, NONE, REFUSED, REFUSED], 4_000)
    metadata = limited.cluster.broker(OTHER).metadata
    assert [metadata.contains_topic(f"t{count}") for count in (9, 5, 3, 2)] == [
        True, True, False, False,
    ]  # fmt: skip
    limited.time.advance(4_000)
    assert await limited.create(3) == ([NONE], 0)


@pytest.mark.parametrize("version", range(CREATE))
async def test_an_older_version_does_all_and_pauses(limited: LimitedCluster, version: int) -> None:
    codes, throttle_ms = await limited.create(15, 3, version=version)
    assert codes == [NONE, NONE]
    assert throttle_ms == (8_000 if version >= 2 else 0)  # older ones have no place for it


async def test_topics_that_cannot_be_or_are_only_checked_do_not_count(
    limited: LimitedCluster,
) -> None:
    assert await limited.create(15, validate_only=True) == ([NONE], 0)
    assert await limited.create(0) == ([ErrorCode.INVALID_PARTITIONS], 0)
    assert await limited.create(10) == ([NONE], 0)
    assert await limited.create(10) == ([ErrorCode.TOPIC_ALREADY_EXISTS], 0)
    assert await limited.create(1) == ([NONE], 0)


async def test_partitions_that_are_added_and_deleted_count_as_those_of_new_topics(
    limited: LimitedCluster,
) -> None:
    other = limited.cluster.broker(OTHER)
    await limited.create(4)

    def grow(count: int) -> CreatePartitionsRequest:
        topic = CreatePartitionsRequest.CreatePartitionsTopic(
            name="t4", count=count, assignments=None
        )
        return CreatePartitionsRequest(topics=[topic], timeout_ms=5_000)

    delete = DeleteTopicsRequest(topic_names=["t4"], timeout_ms=5_000)
    grown = await other.ask(grow(12), GROW)
    assert (grown.results[0].error_code, grown.throttle_time_ms) == (NONE, 0)
    refused = await other.ask(grow(13), GROW)
    assert (refused.results[0].error_code, refused.throttle_time_ms) == (REFUSED, 2_000)
    assert refused.results[0].error_message == "The throttling quota has been exceeded."
    kept = await other.ask(delete, DELETE)
    assert (kept.responses[0].error_code, kept.throttle_time_ms) == (REFUSED, 2_000)
    assert other.metadata.contains_topic("t4")
    paused = await other.ask(grow(13), GROW - 1)
    assert (paused.results[0].error_code, paused.throttle_time_ms) == (NONE, 3_000)
    gone = await other.ask(delete, DELETE - 1)
    assert (gone.responses[0].error_code, gone.throttle_time_ms) == (NONE, 16_000)


async def test_the_broker_that_was_asked_mutes_the_connection(limited: LimitedCluster) -> None:
    other = limited.cluster.broker(OTHER)
    results: list[Any] = []
    handle = other.apis.handle

    async def noted(request: Request) -> Any:
        result: Any = handle(request)
        results.append(result if isinstance(result, Response) else await result)
        return results[-1]

    other.apis = type("Noting", (), {"handle": staticmethod(noted)})()  # type: ignore[assignment]
    await limited.create(15)
    await limited.create(1)
    assert [result.throttle_ms for result in results] == [0, 5_000]


async def test_a_large_request_says_the_pause_of_its_last_part(limited: LimitedCluster) -> None:
    topics = [
        CreateTopicsRequest.CreatableTopic(name=f"{number:0200}", num_partitions=1)
        for number in range(600)
    ]
    for topic in topics:
        topic.replication_factor = 1
    request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
    answer = await limited.cluster.broker(CONTROLLER).ask(request, 4)
    assert {topic.error_code for topic in answer.topics} == {NONE}
    assert answer.throttle_time_ms == 590_000
