"""Producers and consumers with limits, whose requests are decoded or come in the short way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.quota_meter import QuotaMeter
from kbroker.apis.registry import registered
from kbroker.apis.served_api import Served
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.request import NoResponse, Response
from kbroker.quotas.quota_entity import DEFAULT, QuotaEntity
from tests.fakes.clusters.replication_cluster import ReplicationCluster, batch, topic_id_of
from tests.fakes.quotas.limited_apis import LimitedApis
from tests.fakes.requests.api_context import ApiCaller
from tests.fakes.requests.repeating_client import RepeatingClient
from tests.fakes.requests.request_frames import frame_of

VALUE = b"v" * 1_000
LIMIT = 1_000  # of bytes in a second: 10,000 at once


def produce(acks: int = 1) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(records=memoryview(bytearray(batch(VALUE))))
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    topic.topic_id = topic_id_of("t")
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[topic])


def fetch(offset: int = 0, epoch: int = -1, session_id: int = 0, **values: Any) -> FetchRequest:
    partition = FetchRequest.FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchRequest.FetchTopic(topic="t", topic_id=topic_id_of("t"), partitions=[partition])]
    return FetchRequest(
        min_bytes=1, session_id=session_id, session_epoch=epoch, topics=topics, **values
    )


@pytest.fixture
def services(cluster: ReplicationCluster, call: ApiCaller, monkeypatch: pytest.MonkeyPatch) -> Any:
    cluster.lead("t")
    monkeypatch.setattr(cluster.metadata, "topic_name", {topic_id_of("t"): "t"}.get)
    monkeypatch.setattr(cluster.metadata, "are_named", lambda _ids: True)
    return call.services


def records_in(answer: Any) -> int:
    return sum(len(data.records or b"") for each in answer.responses for data in each.partitions)


@pytest.mark.parametrize("is_short", [True, False], ids=["in the short way", "decoded"])
@pytest.mark.parametrize("version", [3, 7, 8, 9, 12, 13])
async def test_a_producer_gets_its_answer_and_pauses(
    services: Any, version: int, is_short: bool
) -> None:
    apis, free = LimitedApis(services, producer_byte_rate=LIMIT), KafkaApis(registered(), services)
    client, other = RepeatingClient(apis), RepeatingClient(free)
    pauses = []
    for _ in range(15):
        if not is_short:
            client.connection.short_way = None
        answer, expected = await client.ask(produce(), version), await other.ask(produce(), version)
        pauses.append(answer.throttle_time_ms)
        answer.throttle_time_ms = 0
        expected.responses[0].partition_responses[0].base_offset -= 1
        assert answer == expected
    size = len(frame_of(produce(), version))
    first = 10_000 // size
    assert pauses[:first] == [0] * first
    assert pauses[first:] == [(at + 1) * size - 10_000 for at in range(first, 15)]
    assert bool(client.short_ways) is is_short


@pytest.mark.parametrize("requests_before", [0, 5])
async def test_a_producer_that_wants_no_answer_pauses_all_the_same(
    services: Any, requests_before: int
) -> None:
    apis = LimitedApis(services, producer_byte_rate=1e9)
    client = RepeatingClient(apis)
    for _ in range(requests_before):
        assert await client.answer(frame_of(produce(0), 9)) == b""
    apis.put(producer_byte_rate=1)
    results = []
    for _ in range(4):
        result = client.send(frame_of(produce(0), 9))
        if result is None:
            assert await client.answer(frame_of(produce(0), 9)) == b""
        else:
            results.append(result)
    assert results
    assert all(isinstance(result, NoResponse) and result.throttle_ms > 0 for result in results)


async def test_a_client_without_a_limit_costs_nothing_beside_limited_ones(services: Any) -> None:
    apis = LimitedApis(services, producer_byte_rate=LIMIT)
    apis.put(QuotaEntity("bob"), producer_byte_rate=LIMIT, consumer_byte_rate=1)
    apis.put()  # User:ANONYMOUS has none
    client = RepeatingClient(apis)
    for _ in range(20):
        assert (await client.ask(produce(), 9)).throttle_time_ms == 0
    assert client.short_ways > 10
    served = Served(registered()[0], 9, replace(services, quotas=apis.manager))
    assert QuotaMeter.of(served, client.connection, "client") is None
    assert QuotaMeter.of(served, replace(client.connection, principal="User:bob"), "client")


async def test_what_a_connection_has_learnt_for_others_counts_for_each_of_them(
    services: Any,
) -> None:
    apis = LimitedApis(services)
    apis.put(QuotaEntity("ann"), producer_byte_rate=1)
    free, limited = RepeatingClient(apis), RepeatingClient(apis)
    limited.connection = replace(limited.connection, principal="User:ann")
    for _ in range(4):
        assert (await free.ask(produce(), 9)).throttle_time_ms == 0
    pauses = [(await limited.ask(produce(), 9)).throttle_time_ms for _ in range(4)]
    assert limited.short_ways
    assert all(pauses)


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 17])
async def test_a_consumer_that_has_read_too_much_gets_an_empty_answer_until_it_has_paused(
    services: Any, cluster: ReplicationCluster, version: int
) -> None:
    for _ in range(30):
        cluster.append(services.replicas.hosted.get(("t", 0)), VALUE)
    apis = LimitedApis(services, consumer_byte_rate=LIMIT)
    client = RepeatingClient(apis)

    first = await client.ask(fetch(max_bytes=1 << 20), version)
    assert 9_000 < records_in(first) < 10_000  # KAFKA-9677: no more than ten windows
    assert first.throttle_time_ms == 0
    second = await client.ask(fetch(9, max_bytes=1 << 20), version)
    assert (records_in(second), second.error_code) == (0, ErrorCode.NONE)
    assert 8_000 < second.throttle_time_ms <= 10_000
    cluster.time.advance(11_000)
    third = await client.ask(fetch(9, max_bytes=1 << 20), version)
    assert records_in(third) == records_in(first)


@pytest.mark.parametrize("version", [7, 12, 13, 17])
async def test_a_throttled_fetch_leaves_its_session_alone(
    services: Any, cluster: ReplicationCluster, version: int
) -> None:
    partition = services.replicas.hosted.get(("t", 0))
    cluster.append(partition, VALUE)
    apis = LimitedApis(services, consumer_byte_rate=1e9)
    client = RepeatingClient(apis)
    session_id = (await client.ask(fetch(1, epoch=0), version)).session_id
    assert session_id
    for epoch in range(1, 5):  # it is known, and has nothing new
        await client.ask(fetch(1, epoch, session_id), version)
    cluster.append(partition, VALUE)
    apis.put(consumer_byte_rate=300)
    apis.used.fetch.use(5_000, cluster.time.monotonic_ms())

    empty = await client.ask(fetch(1, 5, session_id), version)
    assert (empty.session_id, empty.error_code, empty.responses) == (session_id, 0, [])
    assert empty.throttle_time_ms > 0
    cluster.time.advance(20_000)
    answer = await client.ask(fetch(1, 6, session_id), version)
    assert (answer.session_id, answer.throttle_time_ms) == (session_id, 0)
    assert records_in(answer) > 1_000
    [data] = answer.responses[0].partitions
    assert data.high_watermark == 2


async def test_a_throttled_fetch_begins_no_session(services: Any) -> None:
    apis = LimitedApis(services, consumer_byte_rate=1)
    apis.used.fetch.use(5_000, 0)
    answer = await RepeatingClient(apis).ask(fetch(epoch=0), 12)
    assert (answer.session_id, answer.responses, answer.throttle_time_ms > 0) == (0, [], True)


async def test_a_batch_that_is_worth_more_than_all_windows_does_not_starve_its_reader(
    services: Any, cluster: ReplicationCluster
) -> None:
    cluster.append(services.replicas.hosted.get(("t", 0)), b"v" * 5_000)
    client = RepeatingClient(LimitedApis(services, consumer_byte_rate=100))

    first = await client.ask(fetch(), 12)
    assert records_in(first) > 5_000
    assert first.throttle_time_ms == pytest.approx(50_000, rel=0.05)
    assert records_in(await client.ask(fetch(), 12)) == 0
    cluster.time.advance(first.throttle_time_ms)
    assert records_in(await client.ask(fetch(), 12)) > 5_000


async def test_with_a_limit_of_nothing_a_consumer_reads_nothing(
    services: Any, cluster: ReplicationCluster
) -> None:
    cluster.append(services.replicas.hosted.get(("t", 0)), VALUE)
    client = RepeatingClient(LimitedApis(services, consumer_byte_rate=0))
    for _ in range(3):
        answer = await client.ask(fetch(), 12)
        assert (records_in(answer), answer.throttle_time_ms) == (0, 11_000)
        cluster.time.advance(11_000)


@pytest.mark.parametrize("version", [4, 12, 17])
async def test_time_of_the_loop_counts_for_all_that_is_asked(
    services: Any, cluster: ReplicationCluster, version: int
) -> None:
    cluster.append(services.replicas.hosted.get(("t", 0)), VALUE)
    apis = LimitedApis(services, request_percentage=1e-9)
    client = RepeatingClient(apis)
    for _ in range(5):
        answer = await client.ask(fetch(), version)
        assert answer.throttle_time_ms == 1_000  # a window at most
        assert records_in(answer) == 0
        assert (await client.ask(produce(), min(version, 9))).throttle_time_ms == 1_000


async def test_the_first_limit_turns_counting_on_and_the_last_one_off_while_requests_come(
    services: Any,
) -> None:
    apis = LimitedApis(services)
    client = RepeatingClient(apis)
    anybody = QuotaEntity(client_id=DEFAULT)

    async def pauses() -> set[bool]:
        return {(await client.ask(produce(), 9)).throttle_time_ms > 0 for _ in range(5)}

    assert await pauses() == {False}
    apis.put(anybody, producer_byte_rate=1)
    assert await pauses() == {True}
    apis.put(anybody, producer_byte_rate=1e9)
    assert await pauses() == {False}
    apis.put(anybody)
    assert await pauses() == {False}


async def test_an_answer_says_what_the_network_is_told(services: Any) -> None:
    apis = LimitedApis(services, producer_byte_rate=1)
    client = RepeatingClient(apis)
    for _ in range(4):
        await client.ask(produce(), 9)
    result = client.send(frame_of(produce(), 9))
    assert isinstance(result, Response)
    body = bytes(result.pieces[0])  # type: ignore[arg-type]
    assert int.from_bytes(body[-5:-1], "big") == result.throttle_ms > 0
