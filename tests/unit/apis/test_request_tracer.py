"""Requests that somebody follows: on whichever way they are answered, their entries say what was
asked and what came of it, and the answers are those that nobody sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.large_requests import FEW_BYTES, LARGE_BYTES
from kbroker.apis.registry import registered
from kbroker.apis.request_tracer import READERS_MAX, TooManyReadersError
from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.network.request_channel import RequestChannel
from kbroker.network.request_handler_pool import KafkaRequestHandlerPool
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import decode_response_header
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.request import NoResponse, Response
from kbroker.protocol.schema import Message
from kbroker.server.broker.followed_requests import FollowedRequests
from kbroker.tracing.trace_entry import FEW
from kbroker.tracing.trace_filter import TraceFilter
from kbroker.tracing.trace_reader import TraceReader
from tests.fakes.clusters.replication_cluster import ReplicationCluster, batch, topic_id_of
from tests.fakes.requests.api_context import ApiCaller
from tests.fakes.requests.denying_authorizer import DenyingAuthorizer
from tests.fakes.requests.recording_replier import RecordingReplier, request_of
from tests.fakes.running.waiting import until

TOPIC = AclResource(AclResourceType.TOPIC, "t")


class Followed:
    """A pool that answers requests, and those who follow them."""

    def __init__(self, call: ApiCaller) -> None:
        services = call.services
        self.apis = KafkaApis(registered(), services)
        self.channel = RequestChannel(100)
        self.pool = KafkaRequestHandlerPool(self.apis.handle, self.channel)
        self.requests = FollowedRequests(
            self.apis, self.pool, services.clock, services.metadata.topic_name
        )
        self.pool.start()

    def follow(self, **query: str) -> TraceReader:
        reader = TraceReader(TraceFilter.of({name: [text] for name, text in query.items()}))
        self.requests.tracer().open(reader)
        return reader

    def begin(self, request: Message, version: int) -> RecordingReplier:
        replier = RecordingReplier()
        key = request.spec.key
        assert key is not None
        body = encode(request, version)
        self.channel.send(replier, request_of(key, version, body))
        return replier

    async def ask(self, request: Message, version: int) -> Response | NoResponse:
        replier = self.begin(request, version)
        await until(lambda: bool(replier.results))
        return replier.results[0]


@pytest.fixture
def followed(call: ApiCaller) -> Followed:
    return Followed(call)


def produce(*topics: str, acks: int = 1, timeout_ms: int = 1000) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic,
                partition_data=[
                    ProduceRequest.PartitionProduceData(records=memoryview(bytearray(batch())))
                ],
            )
            for topic in topics or ("t",)
        ],
    )


def fetch(offset: int = 0, *, max_wait_ms: int = 0, **more: Any) -> FetchRequest:
    wanted = FetchRequest.FetchPartition(fetch_offset=offset, partition_max_bytes=1000)
    values = {
        "session_epoch": -1,
        "topics": [FetchRequest.FetchTopic(topic="t", partitions=[wanted])],
    }
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, **{**values, **more})


def values_of(reader: TraceReader) -> list[Mapping[str, Any]]:
    return [entry.value() for entry in reader.take().entries]


async def test_an_entry_says_who_asked_for_what_and_how_much_came_of_it(
    cluster: ReplicationCluster, followed: Followed
) -> None:
    cluster.lead("t")
    reader = followed.follow()
    request = produce()

    answer = await followed.ask(request, 9)

    (value,) = values_of(reader)
    assert isinstance(answer, Response)
    assert value["took_ms"] >= 0
    assert value["at_ms"] == cluster.time.now_ms()
    assert {name: value[name] for name in ("api", "version", "correlation_id")} == {
        "api": "Produce",
        "version": 9,
        "correlation_id": 7,
    }
    assert (value["client_id"], value["address"]) == ("test", "127.0.0.1:50000")
    assert (value["topics"], value["partitions"]) == (("t",), ("t-0",))
    assert value["request_bytes"] == len(encode(request, 9))
    assert value["answer_bytes"] == sum(map(len, answer.pieces))
    assert "codes" not in value


@pytest.mark.parametrize(
    ("asked", "version", "codes"),
    [
        (produce("t", "u"), 9, [("UNKNOWN_TOPIC_OR_PARTITION", "u-0")]),
        (fetch(9), 12, [("OFFSET_OUT_OF_RANGE", "t-0")]),
        (
            fetch(session_id=5, session_epoch=3),
            12,
            [("FETCH_SESSION_ID_NOT_FOUND", "")],
        ),
        (
            MetadataRequest(
                topics=[MetadataRequest.MetadataRequestTopic(name="a b")],
                allow_auto_topic_creation=False,
            ),
            9,
            [("INVALID_TOPIC_EXCEPTION", "a b")],
        ),
    ],
)
async def test_codes_of_an_answer_are_named_with_what_they_are_about(
    cluster: ReplicationCluster,
    followed: Followed,
    asked: Message,
    version: int,
    codes: list[tuple[str, str]],
) -> None:
    cluster.lead("t")
    reader = followed.follow()

    await followed.ask(asked, version)

    (value,) = values_of(reader)
    assert [(each["code"], each.get("about", "")) for each in value["codes"]] == codes


async def test_topics_by_id_are_named(cluster: ReplicationCluster, followed: Followed) -> None:
    cluster.lead("t")
    reader = followed.follow()
    wanted = [FetchRequest.FetchPartition(fetch_offset=9, partition_max_bytes=1000)]
    topics = [FetchRequest.FetchTopic(topic_id=topic_id_of("t"), partitions=wanted)]

    await followed.ask(fetch(topics=topics), 13)

    (value,) = values_of(reader)
    assert value["partitions"] == ("t-0",)
    assert value["codes"] == [{"code": "OFFSET_OUT_OF_RANGE", "about": "t-0"}]


async def test_a_request_that_goes_on_with_a_session_names_its_partitions(
    cluster: ReplicationCluster, followed: Followed
) -> None:
    cluster.append(cluster.lead("t"), b"v")
    data = bytes_of(await followed.ask(fetch(session_epoch=0), 12))
    begun, _ = decode(FetchResponse, 12, data, decode_response_header(data, 1, 12)[1])
    session_id = begun.session_id
    reader = followed.follow(topic="t")

    await followed.ask(fetch(session_id=session_id, session_epoch=1, topics=[]), 12)

    (value,) = values_of(reader)
    assert (value["partitions"], value["partition_count"]) == (("t-0",), 1)


def test_a_request_that_waits_has_its_entry_once_it_is_answered(
    cluster: ReplicationCluster, followed: Followed
) -> None:
    partition = cluster.lead("t")
    reader = followed.follow()
    replier = followed.begin(fetch(max_wait_ms=60_000), 12)
    assert values_of(reader) == []

    cluster.append(partition, b"v")
    cluster.run_callbacks()

    assert len(replier.results) == 1
    (value,) = values_of(reader)
    assert value["api"] == "Fetch"
    assert value["answer_bytes"] > 0


async def test_a_request_without_an_answer_has_an_entry(
    cluster: ReplicationCluster, followed: Followed
) -> None:
    cluster.lead("t")
    reader = followed.follow()

    await followed.ask(produce(acks=0), 9)
    await followed.ask(produce("unknown", acks=0), 9)

    fine, refused = values_of(reader)
    assert (fine["answer_bytes"], "closed" in fine) == (None, False)
    assert (refused["answer_bytes"], refused["closed"]) == (None, True)


async def test_bytes_that_are_no_such_request_close_the_connection_and_have_an_entry(
    followed: Followed,
) -> None:
    reader = followed.follow()
    replier = RecordingReplier()

    followed.channel.send(replier, request_of(0, 9, b"\xff"))

    (value,) = values_of(reader)
    assert (value["api"], value["closed"]) == ("Produce", True)
    assert isinstance(replier.failures[0], ProtocolError)


async def test_a_version_that_is_too_new_is_named(followed: Followed) -> None:
    reader = followed.follow()

    followed.channel.send(RecordingReplier(), request_of(18, 99, b""))

    (value,) = values_of(reader)
    assert value["codes"] == [{"code": "UNSUPPORTED_VERSION"}]


async def test_refusals_of_whole_requests_are_codes_too(
    cluster: ReplicationCluster, followed: Followed
) -> None:
    cluster.lead("t").log.fail_with = KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
    reader = followed.follow(code="*")

    await followed.ask(produce(), 9)

    (value,) = values_of(reader)
    assert [each["code"] for each in value["codes"]] == ["MESSAGE_TOO_LARGE"]


@pytest.mark.parametrize("partitions", [10, FEW_BYTES // 10, LARGE_BYTES // 10])
async def test_requests_of_every_size_have_one_entry(
    cluster: ReplicationCluster, followed: Followed, partitions: int
) -> None:
    cluster.lead("t")
    asked = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=index)
        for index in range(partitions)
    ]
    topics = [ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=asked)]
    reader = followed.follow(code="*")

    await followed.ask(ListOffsetsRequest(topics=topics), 5)

    (value,) = values_of(reader)
    assert value["partition_count"] == partitions
    assert value["code_count"] > 0


async def test_a_code_of_the_last_part_is_looked_for_too(
    cluster: ReplicationCluster, followed: Followed
) -> None:
    cluster.lead("t")
    cluster.lead("other")
    entry = ListOffsetsRequest.ListOffsetsPartition
    unknown = [entry(partition_index=index) for index in range(1, LARGE_BYTES // 10)]
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=unknown),
        ListOffsetsRequest.ListOffsetsTopic(name="other", partitions=[entry()] * 2),  # twice
    ]
    readers = [followed.follow(code=code) for code in ("UNKNOWN_TOPIC*", "INVALID_REQUEST")]

    await followed.ask(ListOffsetsRequest(topics=topics), 5)

    (value,), same = map(values_of, readers)
    assert same == [value]
    assert len(value["codes"]) == FEW


async def test_what_is_refused_before_the_handler_is_seen(
    cluster: ReplicationCluster, followed: Followed, call: ApiCaller
) -> None:
    cluster.lead("t")
    denying = DenyingAuthorizer((AclOperation.WRITE, TOPIC))
    followed.apis.use(replace(call.services, authorizer=denying))
    reader = followed.follow()

    await followed.ask(produce(), 9)

    (value,) = values_of(reader)
    assert value["codes"] == [{"code": "TOPIC_AUTHORIZATION_FAILED", "about": "t-0"}]


async def test_a_reader_gets_what_its_filter_lets_through(
    cluster: ReplicationCluster, followed: Followed
) -> None:
    cluster.lead("t")
    cluster.lead("other")
    readers = {
        name: followed.follow(**query)
        for name, query in {
            "api": {"api": "fetch"},
            "client": {"client_id": "nobody"},
            "topic": {"topic": "oth*"},
            "slow": {"slower_than_ms": "60000"},
            "fine": {"code": "NONE"},
        }.items()
    }

    await followed.ask(produce("other"), 9)
    await followed.ask(fetch(9), 12)

    seen = {name: [each["api"] for each in values_of(it)] for name, it in readers.items()}
    assert seen == {
        "api": ["Fetch"],
        "client": [],
        "topic": ["Produce"],
        "slow": [],
        "fine": ["Produce"],
    }


async def test_tokens_are_nowhere_in_an_entry(followed: Followed) -> None:
    reader = followed.follow()

    replier = followed.begin(SaslAuthenticateRequest(auth_bytes=b"\0user\0s3cr3t"), 2)
    await until(lambda: bool(replier.results or replier.failures))

    (value,) = values_of(reader)
    assert value["api"] == "SaslAuthenticate"
    assert "s3cr3t" not in str(value)


async def test_short_ways_are_not_taken_while_somebody_follows_and_again_afterwards(
    cluster: ReplicationCluster, followed: Followed
) -> None:
    cluster.lead("t")
    assert followed.channel.settle is not None
    first, second = followed.follow(), followed.follow()
    assert followed.channel.settle is None

    tracer = followed.requests.tracer()
    tracer.close(first)
    await followed.ask(produce(), 9)
    assert len(values_of(second)) == 1
    assert values_of(first) == []
    tracer.close(second)
    tracer.close(second)

    assert followed.channel.settle is not None
    await followed.ask(produce(), 9)
    assert values_of(second) == []


async def test_answers_that_are_known_are_seen_while_somebody_follows(
    cluster: ReplicationCluster, followed: Followed
) -> None:
    cluster.lead("t")
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])
    for _ in range(3):
        await followed.ask(request, 9)
    reader = followed.follow(topic="t")

    await followed.ask(request, 9)

    assert [each["api"] for each in values_of(reader)] == ["Metadata"]


async def test_answers_are_the_same_whether_somebody_follows_or_not(
    cluster: ReplicationCluster, followed: Followed
) -> None:
    cluster.append(cluster.lead("t"), b"v")

    async def answers() -> list[bytes]:
        asked = [(ApiVersionsRequest(), 3), (fetch(), 12), (fetch(9), 12)]
        found = [await followed.ask(request, version) for request, version in asked]
        return [bytes_of(answer) for answer in found]

    unseen = await answers()
    reader = followed.follow()
    assert await answers() == unseen
    assert len(values_of(reader)) == len(unseen)


def bytes_of(answer: Response | NoResponse) -> bytes:
    assert isinstance(answer, Response)
    return b"".join(
        bytes(piece) if isinstance(piece, (bytes, bytearray, memoryview)) else piece.read()
        for piece in answer.pieces
    )


async def test_not_everybody_may_follow(followed: Followed) -> None:
    for _ in range(READERS_MAX):
        followed.follow()
    with pytest.raises(TooManyReadersError):
        followed.follow()


async def test_requests_that_wait_for_the_start_are_seen_by_who_follows_before(
    cluster: ReplicationCluster, call: ApiCaller
) -> None:
    cluster.lead("t")
    followed = Followed(call)
    await followed.pool.shutdown()
    reader = followed.follow()
    followed.pool.start()

    await followed.ask(produce(), 9)

    assert followed.channel.settle is None
    assert len(values_of(reader)) == 1
