from __future__ import annotations

import asyncio
import threading
import time
import weakref
from contextlib import nullcontext
from dataclasses import replace
from inspect import isawaitable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kbroker.apis import large_requests, registry
from kbroker.apis.context import RequestContext
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.large_requests import (
    LARGE_BYTES,
    LARGEST_BYTES,
    MOST_AS_A_WHOLE,
    MOST_UNDECLARED,
    Beside,
    let_go,
    most_elements,
)
from kbroker.apis.registry import Api
from kbroker.apis.request_parts import AS_A_WHOLE, Again, AnswerInParts, Parts
from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.memory_room import REQUESTS_BYTES
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kbroker.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kbroker.protocol.request import Response
from kbroker.protocol.schema import Versions
from kbroker.replication.reads.fetch_params import FetchPartition
from kbroker.turns import ENTRIES
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from tests.fakes.clusters.peers import peers_over
from tests.fakes.requests.recording_replier import request_of
from tests.faults.loop_holds import Ends

KEY, VERSION, HEADER_BYTES = 15, 4, 4
MANY = [f"group-{number}" for number in range(12_000)]
MOST_ENDED = 1_500  # objects in a turn: half a millisecond
IN_PARTS = Parts("groups", "groups", key="")


class Describer:
    """Describes groups, and notes how many it was asked for at once."""

    def __init__(self, services: Any, parts: Parts | None = IN_PARTS) -> None:
        self.asked: list[int] = []
        versions = Versions.parse("0-6")
        api = Api(KEY, "DescribeGroups", DescribeGroupsRequest, versions, self.handle, parts=parts)
        self.apis = KafkaApis({KEY: api}, services)

    async def handle(self, _ctx: RequestContext, request: DescribeGroupsRequest) -> Any:
        self.asked.append(len(request.groups))
        if "bad" in request.groups:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return DescribeGroupsResponse(
            groups=[DescribeGroupsResponse.DescribedGroup(group_id=name) for name in request.groups]
        )

    async def describe(self, groups: list[str]) -> list[tuple[str, int]]:
        body = encode(DescribeGroupsRequest(groups=groups), VERSION)
        answer = self.apis.handle(request_of(KEY, VERSION, body))
        result = answer if isinstance(answer, Response) else await answer
        assert isinstance(result, Response)
        data = b"".join(bytes(piece) for piece in result.pieces)  # type: ignore[arg-type]
        response, end = decode(DescribeGroupsResponse, VERSION, data, HEADER_BYTES)
        assert end == len(data)
        return [(group.group_id, group.error_code) for group in response.groups]


async def test_a_large_request_is_answered_in_parts_and_in_order(call: Any) -> None:
    describer = Describer(call.services)

    answers = await describer.describe(MANY)

    assert answers == [(name, 0) for name in MANY]
    assert max(describer.asked) == ENTRIES
    assert sum(describer.asked) == len(MANY)


async def test_the_answer_to_a_request_as_a_whole_is_joined_piece_by_piece(call: Any) -> None:
    groups = [DescribeGroupsResponse.DescribedGroup(group_id=name) for name in MANY]

    pieces = await Beside().encoded(DescribeGroupsResponse(groups=groups), VERSION, b"head")

    sizes = [len(piece) for piece in pieces]
    assert len(sizes) > sum(sizes) // 100_000


async def test_a_message_that_a_thread_still_holds_ends_in_turns_but_for_itself() -> None:
    held = DescribeGroupsResponse(
        groups=[DescribeGroupsResponse.DescribedGroup(group_id=name) for name in MANY]
    )

    ends = Ends()
    with ends.counted(DescribeGroupsResponse.DescribedGroup):
        await let_go([held])

    assert ends.total == len(MANY)
    assert ends.most <= MOST_ENDED


async def test_what_was_answered_as_a_whole_ends_in_turns(call: Any) -> None:
    describer = Describer(call.services, AS_A_WHOLE)
    frame = request_of(KEY, VERSION, encode(DescribeGroupsRequest(groups=MANY), VERSION))

    ends = Ends()
    with ends.counted(DescribeGroupsResponse.DescribedGroup):
        await cast(Any, describer.apis.handle(frame))
        await asyncio.sleep(0)

    assert ends.total == len(MANY)
    assert ends.most <= MOST_ENDED


@pytest.mark.parametrize("session_epoch", [-1, 0])
@pytest.mark.parametrize("version", [12, 18])
async def test_what_a_wide_fetch_was_asked_and_answered_ends_in_turns(
    call: Any, version: int, session_epoch: int
) -> None:
    apis = KafkaApis(registry.registered(), call.services)
    asked = [FetchRequest.FetchPartition(partition=number) for number in range(20_000)]
    topic = FetchRequest.FetchTopic(topic="t", topic_id=UUID(int=7), partitions=asked)
    request = FetchRequest(topics=[topic], session_epoch=session_epoch, max_wait_ms=0)
    frame = request_of(1, version, encode(request, version))
    del topic, asked, request
    parts = FetchRequest.FetchPartition, FetchResponse.PartitionData, FetchPartition

    ends = Ends()
    with ends.counted(*parts):
        await cast(Any, apis.handle(frame))
        await asyncio.sleep(0)

    assert ends.total >= 2 * 20_000  # a session keeps what it was asked
    assert ends.most <= MOST_ENDED


async def test_one_thread_at_a_time_computes_beside_the_loop() -> None:
    beside, at_once, most = Beside(), [0], [0]

    def work() -> None:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        time.sleep(0)  # others may go on
        at_once[0] -= 1

    await asyncio.gather(*(beside.run(work) for _ in range(200)))

    assert most == [1]


async def test_others_are_answered_between_the_parts(call: Any) -> None:
    describer = Describer(call.services)

    large = asyncio.ensure_future(describer.describe(MANY))
    others = 0
    while not large.done():
        await asyncio.sleep(0)
        await describer.describe(["other"])
        others += 1

    assert others > len(MANY) // ENTRIES


@pytest.mark.parametrize(
    ("groups", "parts"),
    [(MANY, AS_A_WHOLE), (MANY[:MOST_UNDECLARED], None), (MANY[:100], IN_PARTS), ([], IN_PARTS)],
)
async def test_what_is_not_apart_or_not_large_is_answered_at_once(
    call: Any, groups: list[str], parts: Parts | None
) -> None:
    describer = Describer(call.services, parts)

    answers = await describer.describe(groups)

    assert [name for name, _ in answers] == groups
    assert describer.asked == [len(groups)]


async def test_a_handler_that_says_nothing_of_many_entries_gets_few(call: Any) -> None:
    describer = Describer(call.services, None)

    with pytest.raises(ProtocolError, match=f"more than {MOST_UNDECLARED} in all"):
        await describer.describe(MANY)
    assert describer.asked == []


@pytest.mark.parametrize("many", [MOST_UNDECLARED + 1, 40_000])  # read at once, or not
async def test_more_of_them_are_refused_in_an_answer_that_has_a_code(call: Any, many: int) -> None:
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="p")] * many
    body = encode(JoinGroupRequest(group_id="g", protocol_type="t", protocols=protocols), 5)
    apis = KafkaApis(registry.registered(), call.services)

    answer = apis.handle(request_of(11, 5, body))
    result: Any = await answer if isawaitable(answer) else answer

    data = b"".join(bytes(piece) for piece in result.pieces)
    response, _ = decode(JoinGroupResponse, 5, data, HEADER_BYTES)
    assert response.error_code == ErrorCode.INVALID_REQUEST


async def test_an_array_that_is_longer_than_its_request_closes_the_connection(call: Any) -> None:
    body = encode(JoinGroupRequest(group_id="g", protocol_type="t"), 5)[:-4] + b"\0\1\0\0"
    apis = KafkaApis(registry.registered(), call.services)

    with pytest.raises(ProtocolError, match="65536 elements in 0 bytes"):
        apis.handle(request_of(11, 5, body))


def test_a_producer_may_name_as_many_partitions_as_fit_into_a_megabyte() -> None:
    produce = registry.registered()[0]

    assert most_elements(produce.parts, produce.request_class) == 32_768


def test_a_member_may_have_as_many_partitions_as_a_cluster() -> None:
    heartbeat = registry.registered()[68]

    assert most_elements(heartbeat.parts, heartbeat.request_class) == MOST_AS_A_WHOLE


@pytest.mark.parametrize("name", ["STABLE", "stable", "Stable"])
async def test_filters_of_states_heed_no_case(call: Any, name: str) -> None:
    asked = []

    def list_groups(*filters: set[str]) -> Any:
        asked.append(filters)
        return 0, []

    groups = SimpleNamespace(list_groups=list_groups, store=[])
    services = replace(call.services, groups=cast(Any, groups))
    body = encode(ListGroupsRequest(states_filter=[name, name]), 4)

    KafkaApis(registry.registered(), services).handle(request_of(16, 4, body))

    assert asked == [({"stable"}, set())]


@pytest.mark.parametrize("again", Again)
async def test_names_that_are_all_the_same_are_answered_in_parts_too(
    call: Any, again: Again
) -> None:
    describer = Describer(call.services, Parts("groups", "groups", key="", again=again))

    answers = await describer.describe(["same"] * len(MANY))

    times = len(MANY) if again is Again.ANSWERED else 1
    assert answers == [("same", 0)] * times
    assert max(describer.asked) <= ENTRIES
    assert sum(describer.asked) == times


@pytest.mark.parametrize("again", Again)
async def test_an_error_of_one_part_is_the_answer_of_all(call: Any, again: Again) -> None:
    groups = [*MANY[:5_000], "bad", *MANY[5_000:]]
    parts = Parts("groups", "groups", key="", again=again)

    answers = await Describer(call.services, parts).describe([*groups, MANY[0]])

    times = 2 if again is Again.ANSWERED else 1
    assert len(answers) == len(groups) - 1 + times
    assert {code for _, code in answers} == {ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize(
    ("again", "place"), [(Again.LEFT_OUT, 0), (Again.IN_PLACE_OF_FIRST, 9_000)]
)
async def test_of_what_is_named_again_the_first_or_the_last_counts(
    call: Any, again: Again, place: int
) -> None:
    describer = Describer(call.services, Parts("groups", "groups", key="", again=again))

    answers = await describer.describe(["again", *MANY[:9_000], "again"])

    assert len(answers) == 9_001
    assert answers[place] == ("again", 0)


async def test_what_was_answered_before_an_error_is_gone_when_the_refusal_is_put_together(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[weakref.ref[AnswerInParts]] = []
    alive_before = []

    class Watched(AnswerInParts):
        def __init__(self, *args: Any) -> None:
            alive_before.append(sum(answer() is not None for answer in answers))
            super().__init__(*args)
            answers.append(weakref.ref(self))

    monkeypatch.setattr(large_requests, "AnswerInParts", Watched)

    await Describer(call.services).describe([*MANY, "bad"])

    assert alive_before == [0, 0]


async def test_the_reason_of_a_refusal_is_not_told_a_million_times(call: Any) -> None:
    def handle(_ctx: RequestContext, _request: CreateTopicsRequest) -> Any:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "why " * 10)

    topics = [CreateTopicsRequest.CreatableTopic(name=f"t{number}") for number in range(20_000)]
    body = encode(CreateTopicsRequest(topics=topics, timeout_ms=1), 5)
    versions, parts = Versions.parse("2-7"), Parts("topics", "topics", key="name")
    api = Api(19, "CreateTopics", CreateTopicsRequest, versions, handle, parts=parts)

    answer = KafkaApis({19: api}, call.services).handle(request_of(19, 5, body))

    assert not isinstance(answer, Response)
    pieces = (await answer).pieces
    assert sum(bytes(piece).count(b"why " * 10) for piece in pieces) == 10_240


async def test_the_error_of_a_request_as_a_whole_is_put_together_beside_the_loop(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    error_response = DescribeGroupsRequest.error_response

    def noted(*args: Any) -> Any:
        threads.append(threading.current_thread())
        return error_response(*args)

    monkeypatch.setattr(DescribeGroupsRequest, "error_response", noted)

    answers = await Describer(call.services, AS_A_WHOLE).describe(["bad", *MANY])

    assert answers == [(name, ErrorCode.INVALID_REQUEST) for name in ["bad", *MANY]]
    (thread,) = threads
    assert thread is not threading.main_thread()


async def test_a_large_request_that_is_none_closes_the_connection(call: Any) -> None:
    apis = Describer(call.services).apis

    answer = apis.handle(request_of(KEY, VERSION, b"\x7f" * (LARGE_BYTES + 1)))

    assert not isinstance(answer, Response)
    with pytest.raises(ProtocolError):
        await answer


async def test_a_request_that_is_too_large_is_not_even_read(call: Any) -> None:
    describer = Describer(call.services)
    name = "x" * 30_000

    with pytest.raises(ProtocolError, match=f"{LARGEST_BYTES} are the most"):
        await describer.describe([name] * (LARGEST_BYTES // len(name) + 1))
    assert describer.asked == []


def test_a_request_with_records_is_read_at_once_whatever_its_size(call: Any) -> None:
    data = ProduceRequest.PartitionProduceData(records=bytes(LARGEST_BYTES))
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    body = encode(ProduceRequest(acks=1, topic_data=[topic]), 9)
    api = Api(
        0, "Produce", ProduceRequest, Versions.parse("3-13"), lambda _ctx, _r: ProduceResponse()
    )

    assert isinstance(KafkaApis({0: api}, call.services).handle(request_of(0, 9, body)), Response)


@pytest.mark.parametrize(("listeners", "is_read"), [(["PLAINTEXT"], True), (["INSIDE"], False)])
async def test_what_brokers_say_grows_with_their_cluster(
    call: Any, listeners: list[str], is_read: bool
) -> None:
    asked = []

    async def handle(_ctx: RequestContext, request: EnvelopeRequest) -> Any:
        asked.append(len(request.request_data))
        return EnvelopeResponse()

    peers = peers_over(EmbeddedTree(call.cluster.time).session(), call.cluster.time, *listeners)
    api = Api(58, "Envelope", EnvelopeRequest, Versions.parse("0"), handle)
    apis = KafkaApis({58: api}, replace(call.services, peers=peers))
    body = encode(EnvelopeRequest(request_data=bytes(LARGEST_BYTES)), 0)

    answer = apis.handle(request_of(58, 0, body))

    assert not isinstance(answer, Response)
    with nullcontext() if is_read else pytest.raises(ProtocolError):
        await answer
    assert asked == [LARGEST_BYTES] * is_read


async def test_an_answer_that_may_be_large_is_not_made_while_others_fill_the_memory(call) -> None:
    describer = Describer(call.services)
    others = describer.apis.room.share()
    others.hold(2 * REQUESTS_BYTES)

    waiting = asyncio.ensure_future(describer.describe(["a", "b"]))
    await asyncio.sleep(0)
    assert describer.asked == []
    others.give_back()

    assert await waiting == [("a", 0), ("b", 0)]
    assert describer.apis.room.taken_bytes == 0


async def test_a_large_request_that_takes_little_does_not_wait_behind_slow_readers(call) -> None:
    describer = Describer(call.services)
    slow = describer.apis.room.share()
    slow.hold(2 * REQUESTS_BYTES)
    largest = [str(number) for number in range(400_000)]
    waiting = asyncio.ensure_future(describer.describe(largest))
    for _ in range(9):
        await asyncio.sleep(0)
    assert describer.apis.room.is_wanted

    answers = await describer.describe(MANY)

    assert len(answers) == len(MANY)
    assert not waiting.done()
    slow.give_back()
    assert len(await waiting) == len(largest)


async def test_what_brokers_say_does_not_wait_for_the_memory_that_clients_fill(call) -> None:
    async def handle(_ctx: RequestContext, _request: StopReplicaRequest) -> StopReplicaResponse:
        return StopReplicaResponse()

    peers = peers_over(EmbeddedTree(call.cluster.time).session(), call.cluster.time, "PLAINTEXT")
    api = Api(5, "StopReplica", StopReplicaRequest, Versions.parse("0-4"), handle)
    apis = KafkaApis({5: api}, replace(call.services, peers=peers))
    clients = apis.room.share()
    clients.hold(2 * REQUESTS_BYTES)
    states = [StopReplicaRequest.StopReplicaTopicState(topic_name="t" * 30_000)] * 3
    body = encode(StopReplicaRequest(topic_states=states), 3)

    answering = asyncio.ensure_future(apis.handle(request_of(5, 3, body)))
    await asyncio.sleep(0)
    assert not apis.room.is_wanted

    assert isinstance(await answering, Response)


async def test_a_request_whose_answer_is_small_does_not_wait_for_memory(call) -> None:
    describer = Describer(call.services, parts=None)
    others = describer.apis.room.share()
    others.hold(2 * REQUESTS_BYTES)

    assert await describer.describe(["a"]) == [("a", 0)]


async def test_a_member_that_waits_for_others_leaves_them_the_memory(call) -> None:
    asked, others_joined = asyncio.Event(), asyncio.Event()

    async def join(_ctx: RequestContext, _request: JoinGroupRequest) -> JoinGroupResponse:
        asked.set()
        await others_joined.wait()
        return JoinGroupResponse()

    api = Api(11, "JoinGroup", JoinGroupRequest, Versions.parse("0-9"), join)
    apis = KafkaApis({11: api}, call.services)
    names = {"member_id": "m" * 30_000, "group_id": "g" * 30_000, "protocol_type": "p" * 30_000}
    body = encode(JoinGroupRequest(**names), 0)
    joining = asyncio.ensure_future(apis.handle(request_of(11, 0, body)))
    await asked.wait()

    assert apis.room.taken_bytes == 0
    others_joined.set()
    await joining
