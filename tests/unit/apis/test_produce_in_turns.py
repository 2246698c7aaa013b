"""Requests to produce to very many partitions: each step is done for some of them in a turn of the
loop, and the answer is that of a small request.
"""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import replace

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis import produce_in_turns, served_api
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.large_requests import MOST_PRODUCED_AT_ONCE
from kbroker.apis.registry import registered
from kbroker.errors import ErrorCode
from kbroker.log.append.append_rules import AT_ONCE_RECORDS
from kbroker.model import TopicPartition
from kbroker.protocol.codec import decode
from kbroker.protocol.header import decode_request_header, decode_response_header
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.request import Accepted, NoResponse, Request, Response
from kbroker.record.record_batch import TRANSACTIONAL_BIT
from kbroker.turns import ENTRIES, turns
from tests.fakes.brokers.long_appends_broker import HeldWork, LongAppendsBroker, settled
from tests.fakes.clusters.replication_cluster import ReplicationCluster, batch, topic_id_of
from tests.fakes.logs.log_maker import open_log
from tests.fakes.requests.api_context import ApiCaller
from tests.fakes.requests.denying_authorizer import services_without
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.requests.request_frames import frame_of
from tests.fakes.requests.transactional import Transactional
from tests.fakes.running.loop_turns import counting_turns
from tests.fakes.running.waiting import until

FEW_AT_ONCE = 4
LED = range(12)
MANY = 8 * MOST_PRODUCED_AT_ONCE
FOLLOWER = 1
T = TopicPartition("t", 0)


def topic(name: str, *entries) -> ProduceRequest.TopicProduceData:
    """Each entry is a partition and its records."""
    data = [
        ProduceRequest.PartitionProduceData(
            index=index, records=None if records is None else memoryview(records)
        )
        for index, records in entries
    ]
    return ProduceRequest.TopicProduceData(
        name=name, topic_id=topic_id_of(name), partition_data=data
    )


def led(*values: bytes, **fields) -> ProduceRequest.TopicProduceData:
    return topic("t", *((index, batch(*values or (b"v",), **fields)) for index in LED))


def written(producer_id: int) -> dict[str, int]:
    """Fields of a batch of a transaction."""
    return {
        "flags": TRANSACTIONAL_BIT,
        "producer_id": producer_id,
        "producer_epoch": 0,
        "base_sequence": 0,
    }


def transactional(*topics: ProduceRequest.TopicProduceData) -> ProduceRequest:
    return ProduceRequest(acks=1, timeout_ms=9, topic_data=list(topics), transactional_id="x")


def plain(*topics: ProduceRequest.TopicProduceData, acks=1) -> ProduceRequest:
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=list(topics))


REQUESTS = {
    "led here": lambda: plain(led()),
    "unknown": lambda: plain(led(), *(topic(f"u{n}", (n, batch(b"v"))) for n in range(20))),
    "named twice": lambda: plain(led(b"a"), topic("other", (0, None)), led(b"b", b"c")),
    "null": lambda: plain(topic("t", *((index, None) for index in LED)), led()),
    "led elsewhere": lambda: plain(led(), topic("far", *((n, batch(b"v")) for n in range(9)))),
    "no partitions": lambda: plain(topic("t"), led(), topic("u"), topic("t")),
    "other acks": lambda: plain(led(), acks=7),
    "no transactional id": lambda: plain(led(), topic("t", (1, batch(b"v", **written(7))))),
    "two producers": lambda: transactional(led(**written(7)), topic("u", (0, batch(**written(8))))),
    "not verified": lambda: transactional(led(**written(7)), topic("u", (0, batch(**written(7))))),
}


class FakeParticipation:
    """Half of the partitions take part."""

    def is_enabled(self) -> bool:
        return True

    def verify(self, asked):
        return {
            partition: ErrorCode.INVALID_TXN_STATE if partition[1] % 2 else ErrorCode.NONE
            for partition in asked.partitions
        }


def cluster_of(**where) -> ReplicationCluster:
    cluster = ReplicationCluster()
    for index in LED:
        cluster.lead("t", index, **where)
    for index in range(9):
        cluster.hear_of("far", index, leader=FOLLOWER, isr=(FOLLOWER,), replicas=(FOLLOWER,))
    return cluster


def services_of(cluster):
    services = ApiCaller(cluster).services
    return replace(services, transactional=Transactional(participation=FakeParticipation()))


def request_of(request: ProduceRequest, version: int) -> tuple[Request, bytearray]:
    received = frame_of(request, version)
    view = memoryview(received)
    header, offset = decode_request_header(view)
    return Request(header, view, offset, local_connection(), len(received)), received


def ask(cluster, request: ProduceRequest, version: int, services=None):
    """Return what leaves for the client, and where the logs end."""

    async def answered():
        apis = KafkaApis(registered(), services or services_of(cluster))
        result = apis.handle(request_of(request, version)[0])
        while inspect.isawaitable(result):
            result = await result
        return result

    result = cluster.loop.run_until_complete(answered())
    ends = [cluster.replicas.hosted.get(T._replace(partition=n)).log.log_end_offset for n in LED]
    if isinstance(result, NoResponse):
        return result.close, ends
    data = b"".join(bytes(piece) for piece in result.pieces)
    _, offset = decode_response_header(data, 0, version)
    return decode(ProduceResponse, version, data, offset)[0], ends


@pytest.fixture
def in_turns(monkeypatch):
    monkeypatch.setattr(served_api, "MOST_PRODUCED_AT_ONCE", FEW_AT_ONCE)
    monkeypatch.setattr(produce_in_turns, "ENTRIES", FEW_AT_ONCE)
    monkeypatch.setattr(produce_in_turns, "VERIFIED_AT_ONCE", FEW_AT_ONCE)


@pytest.mark.parametrize("version", [8, 11, 13])
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_in_turns_is_answered_like_one_at_once(name, version, request):
    at_once = ask(cluster_of(), REQUESTS[name](), version)

    request.getfixturevalue("in_turns")

    assert ask(cluster_of(), REQUESTS[name](), version) == at_once


@pytest.mark.parametrize("name", ["led here", "unknown"])
def test_without_acks_a_refusal_closes_the_connection(name, in_turns):
    request = REQUESTS[name]()
    request.acks = 0

    assert ask(cluster_of(), request, 9) == (name == "unknown", [1] * len(LED))


def test_without_acks_a_request_that_is_refused_as_a_whole_closes_the_connection(in_turns):
    request = REQUESTS["two producers"]()
    request.acks = 0

    assert ask(cluster_of(), request, 9) == (True, [0] * len(LED))


def test_what_a_client_may_not_write_is_refused_beside_what_it_may(in_turns):
    cluster = cluster_of()
    denied = [
        (AclOperation.WRITE, AclResource(AclResourceType.TOPIC, f"secret{n}"))
        for n in range(2 * ENTRIES)
    ]
    secret = [topic(resource.name, (0, batch(b"v"))) for _, resource in denied]
    services = services_without(services_of(cluster), *denied)

    answer, ends = ask(cluster, plain(*secret, led()), 9, services)

    codes = {entry.name: entry.partition_responses[0].error_code for entry in answer.responses}
    refused = {resource.name: ErrorCode.TOPIC_AUTHORIZATION_FAILED for _, resource in denied}
    assert codes == {"t": 0, **refused}
    assert ends == [1] * len(LED)


def test_others_have_their_turn_between_the_partitions_of_a_topic_that_is_refused():
    cluster = cluster_of()
    denied = AclOperation.WRITE, AclResource(AclResourceType.TOPIC, "secret")
    apis = KafkaApis(registered(), services_without(services_of(cluster), denied))
    request = plain(topic("secret", *((n, b"") for n in range(MANY))))

    async def answered():
        before = turns().given
        return await apis.handle(request_of(request, 9)[0]), turns().given - before

    response, given = cluster.loop.run_until_complete(answered())

    data = b"".join(bytes(piece) for piece in response.pieces)
    _, offset = decode_response_header(data, 0, 9)
    (answer,) = decode(ProduceResponse, 9, data, offset)[0].responses
    assert [(each.index, each.error_code) for each in answer.partition_responses] == [
        (index, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for index in range(MANY)
    ]
    assert given > MANY // ENTRIES + MANY // 1_000  # to refuse them, and to free them


def test_others_have_their_turn_between_the_partitions():
    cluster = cluster_of()
    request = plain(topic("u", *((n, b"") for n in range(MANY))))
    apis = KafkaApis(registered(), services_of(cluster))

    async def answered():
        return await counting_turns(apis.handle(request_of(request, 9)[0]))

    answer, turns = cluster.loop.run_until_complete(answered())

    assert isinstance(answer, Response)
    assert turns > 3 * MANY // ENTRIES  # to sort, to append, to answer


def test_what_waits_for_followers_holds_neither_memory_nor_the_next_request(in_turns):
    cluster = cluster_of(isr=(0, FOLLOWER), replicas=(0, FOLLOWER))
    apis = KafkaApis(registered(), services_of(cluster))
    request, received = request_of(plain(led(), acks=-1), 9)
    accepted = cluster.loop.run_until_complete(apis.handle(request))
    assert isinstance(accepted, Accepted)
    del request
    received.clear()  # raises BufferError while anybody has a view of it
    assert apis.room.taken_bytes == 0

    for index in LED:
        partition = T._replace(partition=index)
        hosted = cluster.replicas.hosted.get(partition)
        hosted.follower_fetched(FOLLOWER, 1, 0, cluster.time.now_ms())
        cluster.replicas.waiting.wake(partition)
    answer = cluster.loop.run_until_complete(asyncio.wait_for(accepted.outcome, 5))

    data = b"".join(bytes(piece) for piece in answer.pieces)
    _, offset = decode_response_header(data, 0, 9)
    (answered,) = decode(ProduceResponse, 9, data, offset)[0].responses
    assert [(each.index, each.error_code) for each in answered.partition_responses] == [
        (index, 0) for index in LED
    ]


@pytest.mark.parametrize("acks", [1, -1])
async def test_the_next_request_begins_when_batches_that_take_long_are_appended(
    in_turns, tmp_path, acks
):
    work, log = HeldWork(), open_log(tmp_path)
    broker = LongAppendsBroker({T: log}, work)
    broker.lead(T, 1, isr=(0, FOLLOWER))
    services = services_of(cluster_of())
    services.replicas.appends = broker.appends
    long = batch(*(b"v" * (1 + n % 2) for n in range(AT_ONCE_RECORDS + 1)))
    asked, received = request_of(plain(topic("t", *((n, long) for n in LED)), acks=acks), 9)
    answering = asyncio.ensure_future(KafkaApis(registered(), services).handle(asked))
    del asked
    await until(lambda: work.asked > 0)
    await settled()
    assert not answering.done()  # its batch is read from what was received

    await work.let_through()

    accepted = await answering
    assert isinstance(accepted, Accepted)
    assert log.log_end_offset == AT_ONCE_RECORDS + 1
    received.clear()  # raises BufferError while anybody has a view of it
    await settled()
    await until(lambda: accepted.outcome.done() or acks == -1)  # a thread writes the answer
    assert accepted.outcome.done() == (acks == 1)
    accepted.outcome.cancel()


def test_what_waits_is_given_up_with_its_connection(in_turns):
    cluster = cluster_of(isr=(0, FOLLOWER), replicas=(0, FOLLOWER))
    apis = KafkaApis(registered(), services_of(cluster))
    accepted = cluster.loop.run_until_complete(apis.handle(request_of(plain(led(), acks=-1), 9)[0]))
    cluster.run_callbacks()
    assert len(cluster.replicas.waiting.produces) > 1

    accepted.outcome.cancel()
    for _ in range(4):  # from task to task
        cluster.run_callbacks()

    assert len(cluster.replicas.waiting.produces) == 0
