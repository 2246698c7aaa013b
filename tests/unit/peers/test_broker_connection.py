"""Several requests in flight on one connection: what each caller gets, and what ends it for all."""

from __future__ import annotations

import asyncio
import struct
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.model import EndPoint
from kbroker.peers.broker_client import IN_FLIGHT_MAX, BrokerClient
from kbroker.peers.way import Way
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.fakes.requests.scripted_peer import (
    SILENCE,
    ScriptedPeer,
    ScriptedTransport,
    answer_frame,
)

END_POINT = EndPoint(listener_name="PLAINTEXT", host="other", port=9092)
BASE_BYTES = 32 * 1024  # where an answer gets a buffer of its own
MIB = 1 << 20
pytestmark = pytest.mark.timeout(20)


class Flight:
    """A client with a connection to a peer that answers when the test says so."""

    def __init__(self, **options: Any) -> None:
        self.peer = ScriptedPeer(lambda *_: SILENCE)
        options = {"way": Way(self.peer.connect), "reconnect_backoff_ms": 0, **options}
        self.client = BrokerClient(END_POINT, "7", 20_000, **options)
        self.tasks: list[asyncio.Task[Any]] = []

    @property
    def transport(self) -> ScriptedTransport:
        return self.peer.connections[-1]

    @property
    def sent(self) -> list[RequestHeader]:
        return [header for header in self.peer.requests if header.api_key != 18]

    async def send(self, *requests: Any, **options: Any) -> None:
        """Send them, each in a task of its own, and let all go out that may."""
        for request in requests:
            self.tasks.append(asyncio.create_task(self.client.send(request, **options)))
        await settled()

    def answers(self, *numbers: int) -> bytes:
        """The answers to the requests sent in these places, as bytes of the connection."""
        return b"".join(
            sized(answer_frame(self.sent[n], HeartbeatResponse(throttle_time_ms=n)))
            for n in numbers
        )

    async def results(self) -> list[Any]:
        """Return the outcome of each: the number of its answer, or the class of its error."""
        await settled()
        return [self._result(task) for task in self.tasks]

    def _result(self, task: asyncio.Task[Any]) -> Any:
        if not task.done():
            return None
        if task.cancelled():
            return asyncio.CancelledError
        error = task.exception()
        return type(error) if error is not None else task.result().throttle_time_ms


@pytest.fixture
def count() -> int:
    """How many requests are sent at first."""
    return 3


@pytest.fixture
def in_flight_max() -> int:
    return IN_FLIGHT_MAX


@pytest.fixture
async def flight(count: int, in_flight_max: int) -> AsyncIterator[Flight]:
    flight = Flight(in_flight_max=in_flight_max)
    await flight.send(*[HeartbeatRequest()] * count)
    yield flight
    for task in flight.tasks:
        task.cancel()
    await asyncio.gather(*flight.tasks, return_exceptions=True)


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


@pytest.mark.parametrize("count", [IN_FLIGHT_MAX + 3])
async def test_requests_go_out_before_earlier_ones_are_answered_up_to_a_limit(
    flight: Flight,
) -> None:
    assert len(flight.sent) == IN_FLIGHT_MAX
    flight.transport.feed(flight.answers(0, 1))
    assert await flight.results() == [0, 1] + [None] * (IN_FLIGHT_MAX + 1)
    assert len(flight.sent) == IN_FLIGHT_MAX + 2
    assert [header.correlation_id for header in flight.sent] == [*range(1, IN_FLIGHT_MAX + 3)]


@pytest.mark.parametrize("step", [1, 3, 10, 1000])
async def test_answers_are_found_however_they_are_cut(step: int, flight: Flight) -> None:
    data = flight.answers(0, 1, 2)
    for start in range(0, len(data), step):
        flight.transport.feed(data[start : start + step])
    assert await flight.results() == [0, 1, 2]


async def test_half_an_answer_answers_nothing_yet(flight: Flight) -> None:
    data = flight.answers(0, 1)
    flight.transport.feed(data[:-1])
    assert await flight.results() == [0, None, None]
    flight.transport.feed(data[-1:])
    assert await flight.results() == [0, 1, None]


sizes = st.sampled_from(
    [
        0,
        1,
        100,
        BASE_BYTES - 30,
        *range(BASE_BYTES - 16, BASE_BYTES),
        BASE_BYTES + 1,
        70_000,
        3 * MIB,
    ]
)


@settings(max_examples=40, deadline=None)
@given(st.lists(sizes, min_size=1, max_size=IN_FLIGHT_MAX), st.data())
async def test_answers_of_any_size_reach_their_callers_whole(
    lengths: list[int], data: st.DataObject
) -> None:
    flight = Flight()
    await flight.send(*[SyncGroupRequest()] * len(lengths))
    said = b"".join(
        sized(answer_frame(header, SyncGroupResponse(assignment=bytes([number]) * length)))
        for number, (header, length) in enumerate(zip(flight.sent, lengths, strict=True))
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=6)))
    for start, end in zip([0, *cuts], [*cuts, len(said)], strict=True):
        flight.transport.feed(said[start:end])
    for number, length in enumerate(lengths):
        answer = await flight.tasks[number]
        assert bytes(answer.assignment) == bytes([number]) * length


@pytest.mark.parametrize("wrong", [(1,), (0, 2), (0, 0)])
async def test_an_answer_out_of_order_fails_all_that_is_in_flight(
    wrong: tuple[int, ...], flight: Flight
) -> None:
    flight.transport.feed(flight.answers(*wrong))
    good = len(wrong) - 1
    assert await flight.results() == [0] * good + [ConnectionResetError] * (3 - good)
    assert flight.transport.is_aborted


@pytest.mark.parametrize("count", [1])
async def test_an_answer_that_nobody_asked_for_ends_the_connection(flight: Flight) -> None:
    flight.transport.feed(flight.answers(0) + flight.answers(0))
    assert await flight.results() == [0]
    assert flight.transport.is_aborted


async def test_a_connection_lost_in_the_middle_of_an_answer_fails_it_and_those_behind(
    flight: Flight,
) -> None:
    flight.transport.feed(flight.answers(0, 1)[:-3])
    flight.transport.protocol.connection_lost(ConnectionResetError(104, "reset by peer"))
    assert await flight.results() == [0, ConnectionResetError, ConnectionResetError]

    await flight.send(HeartbeatRequest())
    assert len(flight.peer.connections) == 2
    flight.transport.feed(flight.answers(3))
    assert (await flight.results())[3:] == [3]


@pytest.mark.parametrize("count", [2])
@pytest.mark.parametrize("in_flight_max", [1])
async def test_those_who_wait_for_room_go_over_the_next_connection(flight: Flight) -> None:
    flight.transport.cut()
    assert await flight.results() == [ConnectionResetError, None]
    assert len(flight.peer.connections) == 2
    flight.transport.feed(flight.answers(1))
    assert await flight.results() == [ConnectionResetError, 1]


@pytest.mark.parametrize("count", [1])
async def test_a_time_out_fails_those_behind_it_too(flight: Flight) -> None:
    flight.transport.feed(flight.answers(0))
    for options in ({"timeout_ms": 20}, {}):  # both are sent in one turn of the loop
        request = flight.client.send(HeartbeatRequest(), **options)
        flight.tasks.append(asyncio.create_task(request))
    await asyncio.wait(flight.tasks)
    assert await flight.results() == [0, TimeoutError, ConnectionResetError]
    with pytest.raises(ConnectionResetError, match="no answer to HeartbeatRequest before it"):
        await flight.tasks[2]


async def test_a_caller_that_gives_up_takes_nothing_from_the_others(flight: Flight) -> None:
    flight.tasks[0].cancel()
    await settled()
    flight.transport.feed(flight.answers(0, 1, 2))
    assert await flight.results() == [asyncio.CancelledError, 1, 2]
    assert not flight.transport.is_aborted


async def test_a_connection_that_nobody_waits_on_any_more_is_not_used_again(flight: Flight) -> None:
    for task in flight.tasks:
        task.cancel()
    await settled()
    assert flight.transport.is_aborted
    await flight.send(HeartbeatRequest())
    assert len(flight.peer.connections) == 2


@pytest.mark.parametrize("count", [3])
@pytest.mark.parametrize("in_flight_max", [1])
async def test_a_caller_that_gives_up_while_it_waits_for_room_has_sent_nothing(
    flight: Flight,
) -> None:
    flight.tasks[1].cancel()
    await settled()
    flight.transport.feed(flight.answers(0))
    assert await flight.results() == [0, asyncio.CancelledError, None]
    flight.transport.feed(flight.answers(1))
    assert await flight.results() == [0, asyncio.CancelledError, 1]


@pytest.mark.parametrize("count", [1])
async def test_nothing_is_sent_to_a_peer_that_does_not_read(flight: Flight) -> None:
    flight.transport.protocol.pause_writing()
    await flight.send(HeartbeatRequest())
    assert len(flight.sent) == 1
    flight.transport.protocol.resume_writing()
    await settled()
    assert len(flight.sent) == 2


@pytest.mark.parametrize("count", [1])
async def test_what_an_answer_claims_to_be_takes_no_memory(flight: Flight) -> None:
    tracemalloc.start()
    try:
        flight.transport.feed(struct.pack(">i", 90 * MIB) + flight.answers(0)[4:])
        assert tracemalloc.get_traced_memory()[1] < 3 * MIB
    finally:
        tracemalloc.stop()


async def test_the_records_of_a_large_answer_lie_where_they_were_received() -> None:
    flight = Flight()
    await flight.send(FetchRequest(), highest_version=12)
    topic, partition = FetchResponse.FetchableTopicResponse, FetchResponse.PartitionData
    answer = FetchResponse(responses=[topic(topic="t", partitions=[partition(records=b"r" * MIB)])])
    flight.transport.feed(sized(answer_frame(flight.sent[0], answer)))

    got = (await flight.tasks[0]).responses[0].partitions[0].records
    assert isinstance(got, memoryview)
    assert isinstance(got.obj, bytearray)
    assert len(got.obj) < MIB + 100


async def test_large_answers_share_memory_that_is_given_back_with_the_first_small_one() -> None:
    flight = Flight()
    flight.peer.answer = lambda *_: SyncGroupResponse(assignment=b"a" * 5 * MIB)
    tracemalloc.start()
    try:
        for _ in range(3):
            await flight.client.send(SyncGroupRequest())
        assert 5 * MIB < tracemalloc.get_traced_memory()[0] < 7 * MIB
        flight.peer.answer = lambda *_: HeartbeatResponse()
        await flight.client.send(HeartbeatRequest())
        assert tracemalloc.get_traced_memory()[0] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("is_refused", [True, False])
async def test_a_broken_peer_is_left_alone_for_a_while(is_refused: bool) -> None:
    flight = Flight(reconnect_backoff_ms=60)
    flight.peer.answer = lambda *_: HeartbeatResponse()
    loop = asyncio.get_running_loop()
    if is_refused:
        flight.peer.refuses = True
        with pytest.raises(ConnectionRefusedError):
            await flight.client.send(HeartbeatRequest())
        flight.peer.refuses = False
    else:
        await flight.client.send(HeartbeatRequest())
        flight.transport.cut()
    began = loop.time()
    await flight.client.send(HeartbeatRequest())
    assert 0.05 < loop.time() - began < 5
    assert flight.peer.attempts == 2


async def test_a_connection_that_was_closed_here_is_replaced_at_once() -> None:
    flight = Flight(reconnect_backoff_ms=60_000)
    flight.peer.answer = lambda *_: HeartbeatResponse()
    for _ in range(3):
        await asyncio.wait_for(flight.client.send(HeartbeatRequest()), 5)
        flight.client.close()
    assert flight.peer.attempts == 3
