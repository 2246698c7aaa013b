"""A BrokerClient over real connections, on both event loops: what comes in pieces, and what breaks."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kbroker.model import EndPoint
from kbroker.peers.broker_client import BrokerClient
from kbroker.protocol.header import decode_request_header
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kbroker.server.event_loop import EventLoopKind, run
from tests.fakes.scripted_peer import ScriptedPeer, answer_frame

KINDS = [EventLoopKind.UVLOOP, EventLoopKind.ASYNCIO]
GROUPS = 100_000
Breaker = Callable[[asyncio.StreamWriter, bytes], Awaitable[None]]
Scenario = Callable[[BrokerClient], Awaitable[Any]]


async def whole(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(frame)


async def in_pieces(writer: asyncio.StreamWriter, frame: bytes) -> None:
    for start in range(len(frame)):
        writer.write(frame[start : start + 1])
        await writer.drain()
        await asyncio.sleep(0)


async def cut_in_the_middle(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(frame[: len(frame) // 2])
    writer.close()


async def reset(writer: asyncio.StreamWriter, _frame: bytes) -> None:
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


async def nothing(_writer: asyncio.StreamWriter, _frame: bytes) -> None:
    """As a process that was stopped: the system still accepts for it."""


def with_peer(kind: EventLoopKind, breakers: list[Breaker], scenario: Scenario) -> Any:
    """Run a scenario against a peer that sends its answers in the ways given, then whole."""
    script = ScriptedPeer(lambda *_: None)

    async def main() -> Any:
        left = list(breakers)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                    header, _ = decode_request_header(await reader.readexactly(size))
                    if header.api_key == 18:
                        answer, breaker = script.api_versions(header), whole
                    else:
                        answer = answer_frame(header, _answer(header.api_key))
                        breaker = left.pop(0) if left else whole
                    await breaker(writer, struct.pack(">i", len(answer)) + answer)
            except (OSError, EOFError, asyncio.CancelledError):
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        end_point = EndPoint(listener_name="PLAINTEXT", host="127.0.0.1", port=port)
        client = BrokerClient(end_point, "1", 20_000)
        try:
            return await asyncio.wait_for(scenario(client), 20)
        finally:
            client.close()
            server.close()

    return run(main(), kind)


def _answer(key: int) -> Any:
    if key == 12:
        return HeartbeatResponse(throttle_time_ms=7)
    listed = ListGroupsResponse.ListedGroup
    return ListGroupsResponse(groups=[listed(group_id=f"group-{n}") for n in range(GROUPS)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("breaker", [whole, in_pieces])
def test_an_answer_is_read_however_it_comes(kind: EventLoopKind, breaker: Breaker) -> None:
    answer = with_peer(kind, [breaker], lambda client: client.send(HeartbeatRequest()))

    assert answer.throttle_time_ms == 7


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_answer_is_read_whole(kind: EventLoopKind) -> None:
    answer = with_peer(kind, [], lambda client: client.send(ListGroupsRequest()))

    assert [answer.groups[0].group_id, answer.groups[-1].group_id] == [
        "group-0",
        f"group-{GROUPS - 1}",
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("breaker", [cut_in_the_middle, reset])
def test_a_broken_connection_is_an_os_error_and_the_next_request_opens_another(
    kind: EventLoopKind, breaker: Breaker
) -> None:
    async def scenario(client: BrokerClient) -> Any:
        with pytest.raises(OSError):  # noqa: PT011  which one depends on what was noticed first
            await client.send(HeartbeatRequest())
        return await client.send(HeartbeatRequest())

    assert with_peer(kind, [breaker], scenario).throttle_time_ms == 7


@pytest.mark.parametrize("kind", KINDS)
def test_a_peer_that_says_nothing_is_given_up_in_time(kind: EventLoopKind) -> None:
    async def scenario(client: BrokerClient) -> Any:
        with pytest.raises(TimeoutError):
            await client.send(HeartbeatRequest(), timeout_ms=50)
        return await client.send(HeartbeatRequest())

    assert with_peer(kind, [nothing], scenario).throttle_time_ms == 7


@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_port_is_refused(kind: EventLoopKind) -> None:
    async def main() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
        end_point = EndPoint(listener_name="PLAINTEXT", host="127.0.0.1", port=port)
        with pytest.raises(ConnectionRefusedError):
            await BrokerClient(end_point, "1", 20_000).send(HeartbeatRequest())

    run(main(), kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_host_nobody_knows_is_an_os_error(kind: EventLoopKind) -> None:
    end_point = EndPoint(listener_name="PLAINTEXT", host="no-such-host.invalid", port=1)

    async def main() -> None:
        with pytest.raises(OSError):  # noqa: PT011  the loops have different classes for it
            await BrokerClient(end_point, "1", 20_000).send(HeartbeatRequest())

    run(main(), kind)
