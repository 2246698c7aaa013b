from __future__ import annotations

import asyncio
import gc
from dataclasses import replace

import pytest

from kbroker.apis import lanes as lanes_module
from kbroker.apis.context import Services
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.lanes import LANES_MAX, LaneRoom, Lanes
from kbroker.apis.produce_shortcut import ProduceShortcut
from kbroker.apis.registry import registered
from kbroker.apis.served_api import Served
from kbroker.errors import ErrorCode
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import TopicPartition
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.request import Accepted, Coming, NoResponse
from kbroker.record.legacy_record import read_any_header
from tests.fakes.clusters.replication_cluster import batch, topic_id_of
from tests.fakes.requests.recording_quotas import RecordingQuotas
from tests.fakes.requests.recording_replier import request_of
from tests.fakes.requests.repeating_client import RepeatingClient
from tests.fakes.requests.request_frames import frame_of, response_of


def produce(*places, acks=1, records=batch, topic="t"):
    data = [
        ProduceRequest.PartitionProduceData(index=index, records=memoryview(bytearray(records())))
        for index in places
    ]
    topics = [
        ProduceRequest.TopicProduceData(
            name=topic, topic_id=topic_id_of(topic), partition_data=data
        )
    ]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def fetch(*wanted, topic="t", max_wait_ms=0, **values):
    """A request for these partitions, from these offsets on."""
    partitions = [
        FetchRequest.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=1000
        )
        for partition, offset in wanted
    ]
    topics = [
        FetchRequest.FetchTopic(topic=topic, topic_id=topic_id_of(topic), partitions=partitions)
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, session_epoch=-1, topics=topics, **values
    )


def outcomes(response):
    return [
        (entry.index, entry.error_code, entry.base_offset)
        for topic in response.responses
        for entry in topic.partition_responses
    ]


@pytest.fixture
def client(call) -> RepeatingClient:
    return RepeatingClient(KafkaApis(registered(), call.services))


@pytest.mark.parametrize("version", range(3, 14))
async def test_a_produce_request_that_is_repeated_is_answered_in_the_short_way(
    cluster, client, version
):
    for partition in range(3):
        cluster.lead("t", partition)

    answers = [await client.ask(produce(at % 3), version) for at in range(9)]

    assert [outcomes(answer) for answer in answers] == [[(at % 3, 0, at // 3)] for at in range(9)]
    assert client.short_ways == 7
    assert client.apis.stats.requests == 9


async def test_several_partitions_are_appended_in_the_short_way(cluster, client):
    for partition in range(3):
        cluster.lead("t", partition)
    for _ in range(2):
        await client.ask(produce(0, 1), 9)

    assert outcomes(await client.ask(produce(2, 0), 9)) == [(2, 0, 0), (0, 0, 2)]
    assert client.short_ways == 1


async def test_a_partition_that_is_named_twice_keeps_the_records_named_last(cluster, client):
    log = cluster.lead("t", 1).log
    cluster.lead("t", 0)
    for _ in range(2):
        await client.ask(produce(0, 1), 9)

    assert outcomes(await client.ask(produce(1, 1), 9)) == [(1, 0, 2)]
    assert log.log_end_offset == 3


@pytest.mark.parametrize("acks", [1, -1])
async def test_what_the_log_refuses_is_answered_as_the_handler_would(cluster, client, acks):
    cluster.lead("t")
    for _ in range(2):
        await client.ask(produce(0, acks=acks), 9)

    answer = await client.ask(produce(5, acks=acks), 9)

    assert outcomes(answer) == [(5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert client.short_ways == 1


async def test_acks_0_has_no_answer_and_an_error_closes_the_connection(cluster, client):
    log = cluster.lead("t").log
    for _ in range(2):
        await client.ask(produce(0, acks=0), 9)

    assert client.send(frame_of(produce(0, acks=0), 9)) == b""
    assert log.log_end_offset == 3
    refused = client.send(frame_of(produce(1, acks=0), 9))
    assert isinstance(refused, NoResponse)
    assert refused.close


async def test_a_topic_that_has_another_id_by_now_is_not_written_to(cluster, client, monkeypatch):
    cluster.lead("t")
    names = {topic_id_of("t"): "t"}
    monkeypatch.setattr(cluster.metadata, "topic_name", names.get)
    for _ in range(3):
        await client.ask(produce(0), 13)
    names.clear()

    answer = await client.ask(produce(0), 13)

    assert outcomes(answer) == [(0, ErrorCode.UNKNOWN_TOPIC_ID, -1)]


async def test_an_answer_that_waits_for_followers_keeps_its_own_request(cluster, client):
    cluster.lead("t")
    for _ in range(2):
        await client.ask(produce(0, acks=-1), 9)
    partition = cluster.lead("t", leader_epoch=1, isr=(0, 1), replicas=(0, 1))

    results = [client.send(frame_of(produce(0, acks=-1), 9)) for _ in range(2)]

    assert all(isinstance(result, Accepted) for result in results)
    partition.follower_fetched(1, 4, 0, cluster.time.now_ms())
    cluster.replicas.waiting.wake(TopicPartition("t", 0))
    frames = [result.finish().pieces for result in results]
    answers = [response_of(produce(0), 9, b"".join(pieces)) for pieces in frames]
    assert [outcomes(answer) for answer in answers] == [[(0, 0, 2)], [(0, 0, 3)]]


async def test_no_buffer_is_looked_at_after_an_answer(cluster, client):
    cluster.lead("t")
    for _ in range(2):
        await client.ask(produce(0), 9)

    for partition in (0, 5):  # the other one is not there
        buffer = frame_of(produce(partition), 9)
        assert client.connection.short_way.answer(buffer, 0, len(buffer)) is not None
        gc.collect()
        buffer.clear()  # raises BufferError while anybody has a view of it


async def test_a_bug_in_learning_a_request_is_answered_and_logged(
    cluster, client, caplog, monkeypatch
):
    cluster.lead("t")
    await client.ask(produce(0), 9)
    monkeypatch.setattr(lanes_module.Template, "of", lambda *_: 1 // 0)

    assert outcomes(await client.ask(produce(0), 9)) == [(0, ErrorCode.UNKNOWN_SERVER_ERROR, -1)]
    assert "UNKNOWN_SERVER_ERROR" in caplog.text


async def test_a_bug_in_a_shortcut_is_answered_and_logged(cluster, client, caplog, monkeypatch):
    cluster.lead("t")
    for _ in range(2):
        await client.ask(produce(0), 9)
    monkeypatch.setattr(ProduceShortcut, "answer", lambda *_: 1 // 0)

    assert outcomes(await client.ask(produce(0), 9)) == [(0, ErrorCode.UNKNOWN_SERVER_ERROR, -1)]
    assert "UNKNOWN_SERVER_ERROR" in caplog.text


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize(
    "asked",
    [
        [(0, 0)],
        [(0, 2)],
        [(0, 3)],
        [(0, 4)],
        [(1, 0), (0, 1)],
        [(1, 0), (1, 0)],
        [(0, 3), (1, 1)],
        [(0, 0), (7, 0)],
        [(7, 0)],
    ],
    ids=str,
)
async def test_a_fetch_in_the_short_way_is_answered_as_any_other(cluster, call, version, asked):
    for partition in range(2):
        led = cluster.lead("t", partition)
        for _ in range(3 - partition):
            led.append_records_to_leader(
                bytearray(batch()), 1, cluster.time.now_ms(), AppendOrigin.CLIENT
            )
    apis = KafkaApis(registered(), call.services)
    client, other = RepeatingClient(apis), RepeatingClient(apis)
    for _ in range(2):
        await client.ask(fetch(*[(0, 0) for _ in asked]), version)

    expected = await other.ask(fetch(*asked), version)

    assert await client.ask(fetch(*asked), version) == expected
    assert client.short_ways == 1
    assert expected.responses


async def test_a_fetch_reads_what_it_asks_for_this_time(cluster, client):
    for partition in range(2):
        cluster.lead("t", partition).append_records_to_leader(
            bytearray(batch()), 1, cluster.time.now_ms(), AppendOrigin.CLIENT
        )

    seen = []
    for partition, offset in [(0, 0), (0, 0), (1, 0), (1, 7), (0, 1)]:
        (topic,) = (await client.ask(fetch((partition, offset)), 12)).responses
        (data,) = topic.partitions
        seen.append((data.partition_index, data.error_code, len(data.records or b"") > 0))

    out_of_range = ErrorCode.OFFSET_OUT_OF_RANGE
    assert seen == [
        (0, 0, True),
        (0, 0, True),
        (1, 0, True),
        (1, out_of_range, False),
        (0, 0, False),
    ]
    assert client.short_ways == 3


async def test_a_fetch_that_waits_is_answered_for_what_it_asked(cluster, client):
    partition = cluster.lead("t")

    def fetch(offset):
        wanted = FetchRequest.FetchPartition(fetch_offset=offset, partition_max_bytes=1000)
        topics = [FetchRequest.FetchTopic(topic="t", partitions=[wanted])]
        return FetchRequest(max_wait_ms=500, min_bytes=1, session_epoch=-1, topics=topics)

    cluster.append(partition, b"v")
    for _ in range(2):
        await client.ask(fetch(0), 12)

    offsets = []
    for offset in (1, 2, 3):
        waiting = client.send(frame_of(fetch(offset), 12))
        assert isinstance(waiting, Coming)
        cluster.append(partition, b"v")
        data = response_of(fetch(0), 12, b"".join(waiting.finish().pieces))
        (answer,) = data.responses[0].partitions
        offsets.append(read_any_header(answer.records).base_offset)

    assert offsets == [1, 2, 3]
    assert client.short_ways == 3


async def test_a_connection_keeps_so_many_templates_and_learns_what_never_repeats_ever_slower(
    cluster, client
):
    cluster.lead("t")
    learnt = 0
    known = lanes_module.Template.of

    def of(*args):
        nonlocal learnt
        learnt += 1
        return known(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes_module.Template, "of", of)
        for number in range(1_000):
            await client.ask(produce(0), 9, f"client {number}")

    assert len(client.connection.short_way) == LANES_MAX
    assert learnt < LANES_MAX + 10
    assert client.short_ways == 0


async def test_what_is_too_large_to_learn_is_looked_at_ever_more_seldom(
    cluster, client, monkeypatch
):
    cluster.lead("t")
    looks = []
    known = lanes_module.Template.of
    monkeypatch.setattr(
        lanes_module.Template, "of", lambda *args: looks.append(args) or known(*args)
    )
    partitions = [FetchRequest.FetchPartition(partition=index) for index in range(200)]
    topics = [FetchRequest.FetchTopic(topic="t", partitions=partitions)]

    for _ in range(200):
        await client.ask(FetchRequest(max_wait_ms=0, session_epoch=-1, topics=topics), 12)

    assert client.short_ways == 0
    assert len(looks) < 10


async def test_a_request_is_counted_once_and_though_its_client_leaves_before_the_answer(
    cluster, client
):
    cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    cluster.lead("t", 1)
    for _ in range(2):
        await client.ask(produce(1, acks=-1), 9)

    assert isinstance(client.send(frame_of(produce(0, acks=-1), 9)), Accepted)
    client.send(frame_of(produce(5, acks=-1), 9))

    assert client.apis.stats.requests == 4


@pytest.fixture(params=[0, 2], ids=["decoded", "in the short way"])
async def waiting(request, cluster, call):
    """A fetch that waits at the end of a log, and its client."""
    cluster.append(cluster.lead("t"), b"v")
    client = RepeatingClient(KafkaApis(registered(), call.services))
    for _ in range(request.param):
        await client.ask(fetch((0, 0), max_wait_ms=500), 12)
    asked = fetch((0, 1), max_wait_ms=500)
    coming = client.send(frame_of(asked, 12))
    if coming is None:
        decoded = request_of(1, 12, encode(asked, 12))._replace(connection=client.connection)
        coming = client.apis.handle(decoded)
    assert isinstance(coming, Coming)
    return coming, client


async def turn_of(loop):
    await asyncio.to_thread(loop.run_until_complete, asyncio.sleep(0))


async def test_a_fetch_that_waits_ends_with_its_connection(cluster, waiting):
    coming, client = waiting
    assert len(cluster.replicas.waiting.fetches) == 1

    client.connection.close()
    await turn_of(cluster.loop)

    assert coming.outcome.cancelled()
    assert len(cluster.replicas.waiting.fetches) == 0


async def test_a_connection_keeps_nothing_of_a_fetch_that_has_waited(cluster, waiting):
    coming, client = waiting
    cluster.append(cluster.replicas.hosted.find(TopicPartition("t", 0)), b"v")
    assert client.connection.waits_for is coming.outcome

    coming.finish()

    assert client.connection.waits_for is None


async def test_a_fetch_of_a_connection_that_is_gone_does_not_wait(cluster, call):
    cluster.lead("t")
    request = request_of(1, 12, encode(fetch((0, 0), max_wait_ms=500), 12))
    request.connection.close()

    coming = KafkaApis(registered(), call.services).handle(request)
    await turn_of(cluster.loop)

    assert coming.outcome.cancelled()
    assert len(cluster.replicas.waiting.fetches) == 0


async def test_what_is_repeated_stays_known_among_what_is_not(cluster, client):
    cluster.lead("t")
    for number in range(400):
        await client.ask(produce(0), 9, f"client {number}")
        await client.ask(produce(0), 9, "client")

    assert client.short_ways > 380


async def test_templates_of_all_connections_have_one_bound_and_go_with_them(cluster, call):
    cluster.lead("t")
    apis = KafkaApis(registered(), call.services)
    frame = frame_of(produce(0), 9)
    first = RepeatingClient(apis)
    for _ in range(2):
        await first.ask(produce(0), 9)
    lanes = first.connection.short_way
    assert isinstance(lanes, Lanes)
    room: LaneRoom = lanes.room
    taken, rest = divmod(lanes_module.ROOM_BYTES - room.left, 2)  # the connection's, and for others
    assert 0 < taken < len(frame)
    assert not rest
    room.left = taken - 1

    second = RepeatingClient(apis)
    for _ in range(9):
        await second.ask(produce(0), 9)
    assert second.short_ways == 0
    first.connection.close()

    assert room.left == 2 * taken - 1
    for _ in range(9):
        await second.ask(produce(0), 9)
    assert second.short_ways > 0


async def test_a_client_that_has_just_connected_takes_the_short_way_of_others_like_it(
    cluster, call
):
    cluster.lead("t")
    apis = KafkaApis(registered(), call.services)
    first, alike, other = (RepeatingClient(apis) for _ in range(3))
    for _ in range(2):
        await first.ask(produce(0), 9)

    answers = [await alike.ask(produce(0), 9) for _ in range(2)]
    await other.ask(produce(0), 9, "another client")
    await other.ask(produce(0), 8)
    refused = await alike.ask(produce(5), 9)
    first.connection.close()

    assert [outcomes(answer) for answer in answers] == [[(0, 0, 2)], [(0, 0, 3)]]
    assert outcomes(refused) == [(5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert (alike.short_ways, other.short_ways) == (2, 0)
    assert outcomes(await alike.ask(produce(0), 9)) == [(0, 0, 6)]


async def test_what_connections_share_goes_when_others_are_asked_and_stays_within_its_bounds(
    cluster, call
):
    cluster.lead("t")
    apis = KafkaApis(registered(), call.services)
    room = apis.lane_room

    async def learn(client_id, *, acks=1):
        client = RepeatingClient(apis)
        for _ in range(2):
            await client.ask(produce(0, acks=acks), 9, client_id)
        client.connection.close()

    async def is_known(client_id, *, acks=1):
        client = RepeatingClient(apis)
        for _ in range(2):
            await client.ask(produce(0, acks=acks), 9, client_id)
        client.connection.close()
        return client.short_ways == 1

    await learn("c")
    assert await is_known("c")
    apis.use(call.services)
    assert room.left == lanes_module.ROOM_BYTES
    assert not await is_known("c")

    for number in range(lanes_module.SHARED_MAX):
        await learn(f"client {number}")
    assert not await is_known("c")
    taken = lanes_module.ROOM_BYTES - room.left
    for number in range(200):
        await learn(f"client {number % 10}", acks=-1 if number % 2 else 1)
    assert lanes_module.ROOM_BYTES - room.left < 3 * taken


def test_a_stage_around_the_handler_switches_a_shortcut_off_and_quotas_do_not(call):
    class Nobody:
        def authorize(self, *_):
            return False

    produce_api = registered()[0]
    services: Services = call.services

    assert Served(produce_api, 9, services).shortcut is not None
    assert Served(produce_api, 9, replace(services, authorizer=Nobody())).shortcut is None
    assert Served(produce_api, 9, replace(services, quotas=RecordingQuotas())).shortcut is not None


@pytest.mark.parametrize("version", [9, 13])
async def test_a_topic_that_is_named_again_after_another_has_its_own_offsets(
    cluster, client, version
):
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        cluster.lead(topic, partition)
    await client.ask(produce(0, topic="u"), version)
    request = produce(0)
    for other in (produce(0, topic="u"), produce(1)):
        request.topic_data += other.topic_data

    answers = [await client.ask(request, version) for _ in range(3)]

    assert [outcomes(answer) for answer in answers] == [
        [(0, 0, at), (1, 0, at), (0, 0, at + 1)] for at in range(3)
    ]


@pytest.mark.parametrize("version", [12, 13])
async def test_a_topic_that_is_fetched_again_after_another_has_its_own_records(
    cluster, client, version, monkeypatch
):
    monkeypatch.setattr(
        cluster.metadata, "topic_name", {topic_id_of(name): name for name in "tu"}.get
    )
    topics = []
    for topic, partition in (("t", 0), ("u", 0), ("t", 1)):
        cluster.append(cluster.lead(topic, partition), f"{topic}{partition}".encode())
        wanted = FetchRequest.FetchPartition(partition=partition, partition_max_bytes=1000)
        topics.append(
            FetchRequest.FetchTopic(topic=topic, topic_id=topic_id_of(topic), partitions=[wanted])
        )
    request = FetchRequest(max_wait_ms=0, session_epoch=-1, topics=topics)

    for _ in range(3):
        response = await client.ask(request, version)
        found = [
            bytes(data.records)[-4:-1] for topic in response.responses for data in topic.partitions
        ]
        assert found == [b"\x04t0", b"\x04t1", b"\x04u0"]


async def test_a_fetch_without_an_epoch_is_not_taken_for_one_with_the_epoch_learnt(cluster, client):
    cluster.lead("t")

    async def ask(last_fetched_epoch):
        wanted = FetchRequest.FetchPartition(
            fetch_offset=7, partition_max_bytes=1000, last_fetched_epoch=last_fetched_epoch
        )
        topics = [FetchRequest.FetchTopic(topic="t", partitions=[wanted])]
        request = FetchRequest(max_wait_ms=0, session_epoch=-1, topics=topics)
        (topic,) = (await client.ask(request, 12)).responses
        return topic.partitions[0].error_code

    assert [await ask(epoch) for epoch in (0, 0, -1, 0, -1)] == [
        0,
        0,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        0,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    ]
