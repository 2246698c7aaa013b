from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ZERO_UUID, EndPoint
from kbroker.peers import broker_connection
from kbroker.peers.broker_client import BrokerClient
from kbroker.peers.way import Way
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tests.fakes.requests.scripted_peer import CUT, SILENCE, ScriptedPeer, answer_frame

END_POINT = EndPoint(listener_name="PLAINTEXT", host="other", port=9092)
TIMEOUT_MS = 60_000.0
pytestmark = pytest.mark.timeout(10)


def client_of(peer: ScriptedPeer, timeout_ms: float = TIMEOUT_MS, **options: Any) -> BrokerClient:
    return BrokerClient(
        END_POINT, "7", timeout_ms, way=Way(peer.connect), reconnect_backoff_ms=1, **options
    )


async def send(peer: ScriptedPeer, request: Any, **options: Any) -> Any:
    return await client_of(peer).send(request, **options)


def heartbeat(_header: Any, request: Any) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=request.generation_id)


def in_turn(*answers: Any) -> Callable[[Any, Any], Any]:
    """Answers one after the other; then as `heartbeat`."""
    left = list(answers)
    return lambda header, request: left.pop(0) if left else heartbeat(header, request)


async def test_a_request_is_sent_in_the_highest_version_that_both_know() -> None:
    peer = ScriptedPeer(lambda *_: UpdateMetadataResponse(), {6: (0, 7)})

    answer = await send(peer, UpdateMetadataRequest())

    assert (answer.error_code, peer.asked) == (0, [(6, 7)])


async def test_the_client_id_is_the_brokers_id_as_text() -> None:
    peer = ScriptedPeer(heartbeat)

    await send(peer, HeartbeatRequest())

    assert {header.client_id for header in peer.requests} == {"7"}


async def test_a_caller_may_ask_for_a_lower_version() -> None:
    peer = ScriptedPeer(heartbeat)

    await send(peer, HeartbeatRequest(), highest_version=2)

    assert peer.asked == [(12, 2)]


@pytest.mark.parametrize(("ids", "asked"), [((ZERO_UUID,) * 2, 4), ((ZERO_UUID, UUID(int=1)), 7)])
async def test_orders_for_topics_without_ids_are_answered_by_name(
    ids: tuple[UUID, ...], asked: int
) -> None:
    peer = ScriptedPeer(lambda *_: LeaderAndIsrResponse(), {4: (0, 7)})
    topics = [
        LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name=f"t{number}", topic_id=topic_id)
        for number, topic_id in enumerate(ids)
    ]

    await send(peer, LeaderAndIsrRequest(topic_states=topics))

    assert peer.asked == [(4, asked)]


async def test_versions_are_settled_once_per_connection() -> None:
    peer = ScriptedPeer(heartbeat)

    client = client_of(peer)
    await client.send(HeartbeatRequest())
    await client.send(HeartbeatRequest())

    assert [header.api_key for header in peer.requests] == [18, 12, 12]
    assert [header.correlation_id for header in peer.requests] == [0, 1, 2]


@pytest.mark.parametrize(
    ("highest", "lists_own", "asked"), [(2, True, 2), (0, True, 0), (1, False, 0)]
)
async def test_a_peer_that_does_not_know_our_api_versions_is_asked_in_its_own(
    highest: int, lists_own: bool, asked: int
) -> None:
    peer = ScriptedPeer(heartbeat)
    peer.api_versions_highest, peer.lists_own_range = highest, lists_own

    await send(peer, HeartbeatRequest())

    assert [h.api_version for h in peer.requests if h.api_key == 18] == [3, asked]
    assert peer.asked == [(12, 4)]


async def test_an_api_that_the_peer_does_not_serve_is_an_error_of_its_own() -> None:
    peer = ScriptedPeer(heartbeat, {12: (0, 4)})

    client = client_of(peer)
    with pytest.raises(KafkaError) as caught:
        await client.send(UpdateMetadataRequest())

    await client.send(HeartbeatRequest())

    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert len(peer.connections) == 1


async def test_leadership_is_never_sent_in_a_version_that_would_leave_it_out() -> None:
    peer = ScriptedPeer(lambda *_: LeaderAndIsrResponse(), {4: (0, 1)})

    with pytest.raises(KafkaError, match="2 to"):
        await send(peer, LeaderAndIsrRequest())

    assert peer.asked == []


async def test_requests_are_answered_one_after_the_other_in_their_order() -> None:
    peer = ScriptedPeer(heartbeat)

    client = client_of(peer)
    sends = [client.send(HeartbeatRequest(generation_id=number)) for number in range(20)]

    answers = await asyncio.gather(*sends)

    assert [answer.throttle_time_ms for answer in answers] == list(range(20))
    assert [header.correlation_id for header in peer.requests] == list(range(21))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (CUT, "closed the connection"),
        ([b"\x00\x00\x00\x09abc"], "closed the connection"),
        (b"HTTP/1.1 400 Bad Request", "frame of"),
        (struct.pack(">i", -5), "frame of -5 bytes"),
        (struct.pack(">i", 2**31 - 1), "limit"),
        (struct.pack(">i", 2) + b"ab", "response header of 2 bytes"),
    ],
)
async def test_what_is_no_answer_ends_the_connection_and_the_next_request_opens_another(
    answer: Any, reason: str
) -> None:
    peer = ScriptedPeer(in_turn(answer))

    client = client_of(peer)
    with pytest.raises(ConnectionError, match=reason) as caught:
        await client.send(HeartbeatRequest())
    assert "other:9092" in str(caught.value)

    assert (await client.send(HeartbeatRequest(generation_id=5))).throttle_time_ms == 5
    assert [c.is_aborted for c in peer.connections] == [True, False]


async def test_an_answer_to_another_request_is_not_taken() -> None:
    def answer(header: Any, request: Any) -> Any:
        frame = answer_frame(header, heartbeat(header, request), header.correlation_id - 1)
        return struct.pack(">i", len(frame)) + frame

    with pytest.raises(ConnectionError, match="an answer to request 0, not 1"):
        await send(ScriptedPeer(answer), HeartbeatRequest())


async def test_a_late_answer_is_not_taken_for_the_next() -> None:
    peer = ScriptedPeer(in_turn(SILENCE))

    client = client_of(peer)
    with pytest.raises(TimeoutError, match="no answer to HeartbeatRequest within"):
        await client.send(HeartbeatRequest(generation_id=1), timeout_ms=10)
    late = answer_frame(peer.requests[-1], HeartbeatResponse(throttle_time_ms=1))
    peer.connections[0].say(late)

    assert (await client.send(HeartbeatRequest(generation_id=2))).throttle_time_ms == 2
    assert len(peer.connections) == 2


async def test_the_time_of_those_who_wait_for_their_turn_runs_too() -> None:
    peer = ScriptedPeer(lambda *_: SILENCE)

    client = client_of(peer, timeout_ms=10, in_flight_max=1)
    sends = [client.send(HeartbeatRequest()) for _ in range(3)]

    errors = await asyncio.gather(*sends, return_exceptions=True)

    assert [type(error) for error in errors] == [TimeoutError] * 3


async def test_nobody_goes_ahead_of_those_who_wait_for_room() -> None:
    came: list[int] = []

    def answer(header: Any, request: Any) -> HeartbeatResponse:
        came.append(request.generation_id)
        return heartbeat(header, request)

    peer = ScriptedPeer(answer)
    client = client_of(peer, in_flight_max=1)

    async def ask(*numbers: int) -> None:
        for number in numbers:
            await client.send(HeartbeatRequest(generation_id=number))

    await ask(0)
    peer.answer = lambda *_: SILENCE
    asked = asyncio.gather(ask(1, 3), ask(2))
    await asyncio.sleep(0)  # until the first is in flight and the other one waits
    peer.answer = answer
    peer.connections[0].say(answer_frame(peer.requests[-1], HeartbeatResponse()))
    await asked

    assert came == [0, 2, 3]


@pytest.mark.parametrize("limits_ms", [(TIMEOUT_MS, 10), (10, TIMEOUT_MS)])
async def test_each_request_has_its_own_time(limits_ms: tuple[float, float]) -> None:
    peer = ScriptedPeer(in_turn(heartbeat(None, HeartbeatRequest())))
    client = client_of(peer)
    await client.send(HeartbeatRequest(), timeout_ms=5)  # whose time goes by later
    peer.answer = lambda *_: SILENCE

    errors = await asyncio.gather(
        *(client.send(HeartbeatRequest(), timeout_ms=limit_ms) for limit_ms in limits_ms),
        return_exceptions=True,
    )

    says = ["within 0.01 s", "gave no answer to HeartbeatRequest before it"]
    assert [limit_ms == 10 for limit_ms in limits_ms] == [says[0] in str(each) for each in errors]
    assert sum(says[1] in str(each) for each in errors) == 1


async def test_a_request_that_is_given_up_ends_the_connection() -> None:
    peer = ScriptedPeer(in_turn(SILENCE))

    client = client_of(peer)
    sending = asyncio.create_task(client.send(HeartbeatRequest()))
    await peer.was_asked.wait()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)

    assert (await client.send(HeartbeatRequest(generation_id=3))).throttle_time_ms == 3
    assert len(peer.connections) == 2


async def test_a_closed_port_is_an_error_until_it_opens() -> None:
    peer = ScriptedPeer(heartbeat)
    peer.refuses = True

    client = client_of(peer)
    with pytest.raises(ConnectionRefusedError):
        await client.send(HeartbeatRequest())
    peer.refuses = False

    assert (await client.send(HeartbeatRequest(generation_id=4))).throttle_time_ms == 4


async def test_a_connection_that_was_closed_while_idle_is_replaced_without_an_error() -> None:
    peer = ScriptedPeer(heartbeat)

    client = client_of(peer)
    await client.send(HeartbeatRequest())
    peer.connections[0].cut()

    assert (await client.send(HeartbeatRequest(generation_id=6))).throttle_time_ms == 6
    assert len(peer.connections) == 2


async def test_close_fails_what_is_in_flight_and_allows_the_next() -> None:
    peer = ScriptedPeer(in_turn(SILENCE))

    client = client_of(peer)
    sending = asyncio.create_task(client.send(HeartbeatRequest()))
    await peer.was_asked.wait()
    client.close()
    with pytest.raises(ConnectionError):
        await sending

    assert (await client.send(HeartbeatRequest(generation_id=8))).throttle_time_ms == 8


async def test_an_answer_above_the_limit_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broker_connection, "ANSWER_BYTES_MAX", 1000)
    peer = ScriptedPeer(lambda *_: struct.pack(">i", 1001))

    with pytest.raises(ConnectionError, match="frame of 1001 bytes, limit 1000"):
        await send(peer, HeartbeatRequest())


async def test_what_the_peer_serves_is_known_without_another_request() -> None:
    peer = ScriptedPeer(heartbeat, {12: (0, 4)})

    client = client_of(peer)

    served = [await client.serves(key, version) for key, version in ((12, 4), (12, 5), (6, 0))]

    assert served == [True, False, False]
    assert peer.asked == []
