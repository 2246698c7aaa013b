"""An authorizer and quotas that are switched on and off in a running broker: from the next request
on they hold, whatever its connection has learnt before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis import lanes
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.registry import registered
from kbroker.apis.served_api import Served
from kbroker.errors import ErrorCode
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.request import Coming
from kbroker.protocol.schema import Message
from tests.fakes.clusters.replication_cluster import ReplicationCluster, batch
from tests.fakes.requests.api_context import ApiCaller
from tests.fakes.requests.denying_authorizer import DenyingAuthorizer
from tests.fakes.requests.recording_quotas import RecordingQuotas
from tests.fakes.requests.recording_replier import request_of
from tests.fakes.requests.repeating_client import RepeatingClient
from tests.fakes.requests.request_frames import CORRELATION_ID, frame_of, response_of

ALLOWED, REFUSED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
TOPIC = AclResource(AclResourceType.TOPIC, "t")
THROTTLE_MS = 7


def produce() -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(records=memoryview(bytearray(batch())))
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])


def fetch(offset: int = 0, max_wait_ms: int = 0) -> FetchRequest:
    partition = FetchRequest.FetchPartition(fetch_offset=offset, partition_max_bytes=1000)
    topics = [FetchRequest.FetchTopic(topic="t", partitions=[partition])]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, session_epoch=-1, topics=topics)


def metadata() -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])


def produced(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


def fetched(answer: Any) -> int:
    if not answer.responses:  # of a client that is throttled
        return int(answer.error_code)
    return int(answer.responses[0].partitions[0].error_code)


def described(answer: Any) -> int:
    return int(answer.topics[0].error_code)


def denying() -> DenyingAuthorizer:
    operations = (AclOperation.WRITE, AclOperation.READ, AclOperation.DESCRIBE)
    return DenyingAuthorizer(*((operation, TOPIC) for operation in operations))


@pytest.mark.parametrize(
    ("asked", "version", "code_in"),
    [(produce, 9, produced), (fetch, 12, fetched), (metadata, 9, described)],
)
async def test_who_is_to_be_asked_is_asked_from_the_next_request_on(
    cluster: ReplicationCluster,
    call: ApiCaller,
    asked: Callable[[], Message],
    version: int,
    code_in: Callable[[Any], int],
) -> None:
    cluster.lead("t")
    open_to_all = call.services
    apis = KafkaApis(registered(), open_to_all)
    client = RepeatingClient(apis)

    async def seen() -> set[tuple[int, int]]:
        """The codes of five answers, and for how long their client is throttled."""
        answers = [await client.ask(asked(), version) for _ in range(5)]
        return {(code_in(answer), answer.throttle_time_ms) for answer in answers}

    assert await seen() == {(ALLOWED, 0)}
    apis.use(replace(open_to_all, authorizer=denying()))
    assert await seen() == {(REFUSED, 0)}
    apis.use(replace(open_to_all, quotas=RecordingQuotas(THROTTLE_MS)))
    assert await seen() == {(ALLOWED, THROTTLE_MS)}
    apis.use(open_to_all)
    assert await seen() == {(ALLOWED, 0)}


async def test_a_connection_learns_again_what_it_had_learnt_for_others(
    cluster: ReplicationCluster, call: ApiCaller
) -> None:
    cluster.lead("t")
    apis = KafkaApis(registered(), call.services)
    client = RepeatingClient(apis)
    for _ in range(3):
        await client.ask(produce(), 9)
    learnt: Any = client.connection.short_way

    apis.use(call.services)
    await client.ask(produce(), 9)

    assert learnt.room.left == lanes.ROOM_BYTES
    assert client.short_ways == 1
    for _ in range(2):
        await client.ask(produce(), 9)
    assert client.short_ways == 2
    client.connection.close()
    apis.use(call.services)  # nor is anything kept for others
    assert learnt.room.left == lanes.ROOM_BYTES


async def test_a_request_from_before_is_not_learnt_afterwards(
    cluster: ReplicationCluster, call: ApiCaller
) -> None:
    cluster.lead("t")
    apis = KafkaApis(registered(), call.services)
    client = RepeatingClient(apis)
    await client.ask(produce(), 9)
    learning: Any = client.connection.short_way
    served = Served(registered()[0], 9, call.services)
    served.is_in_force = False
    request = request_of(0, 9, encode(produce(), 9))

    for _ in range(3):
        learning.missed(served, request, produce())

    assert len(learning) == 0


@pytest.mark.parametrize("requests_before", [0, 2], ids=["decoded", "in the short way"])
async def test_a_request_that_waits_ends_as_it_began(
    cluster: ReplicationCluster, call: ApiCaller, requests_before: int
) -> None:
    partition = cluster.lead("t")
    cluster.append(partition, b"v")
    apis = KafkaApis(registered(), call.services)
    client = RepeatingClient(apis)
    for _ in range(requests_before):
        await client.ask(fetch(0, max_wait_ms=500), 12)
    asked = fetch(1, max_wait_ms=500)
    waiting: Any = client.send(frame_of(asked, 12))
    if not requests_before:
        body = encode(asked, 12)
        waiting = apis.handle(request_of(1, 12, body, correlation_id=CORRELATION_ID))
    assert isinstance(waiting, Coming)

    apis.use(replace(call.services, authorizer=denying(), quotas=RecordingQuotas(THROTTLE_MS)))
    cluster.append(partition, b"v")

    result = waiting.finish()
    pieces = (piece if isinstance(piece, bytes) else piece.read() for piece in result.pieces)
    answer = response_of(fetch(), 12, b"".join(pieces))
    assert (fetched(answer), answer.throttle_time_ms, result.throttle_ms) == (ALLOWED, 0, 0)
