"""A BrokerClient over real connections, on both event loops: what comes in pieces, and what breaks."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kbroker.model import EndPoint
from kbroker.peers.broker_client import BrokerClient
from kbroker.peers.tls_connect import connect_unverified
from kbroker.peers.way import PLAIN_WAY, Way
from kbroker.protocol.header import decode_request_header
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.fakes.requests.scripted_peer import ScriptedPeer, answer_frame

GROUPS = 100_000
Breaker = Callable[[asyncio.StreamWriter, bytes], Awaitable[None]]
pytestmark = [pytest.mark.both_loops, pytest.mark.timeout(30)]


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


@pytest.fixture
def breakers() -> list[Breaker]:
    """The ways in which the peer sends its first answers; the others it sends whole."""
    return []


@pytest.fixture
async def client(breakers: list[Breaker]) -> AsyncIterator[BrokerClient]:
    """Of a peer that answers over a real connection."""
    script = ScriptedPeer(lambda *_: None)
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
    yield client
    client.close()
    server.close()


def _answer(key: int) -> Any:
    if key == 12:
        return HeartbeatResponse(throttle_time_ms=7)
    listed = ListGroupsResponse.ListedGroup
    return ListGroupsResponse(groups=[listed(group_id=f"group-{n}") for n in range(GROUPS)])


@pytest.mark.parametrize("breakers", [[whole], [in_pieces]])
async def test_an_answer_is_read_however_it_comes(client: BrokerClient) -> None:
    assert (await client.send(HeartbeatRequest())).throttle_time_ms == 7


async def test_a_large_answer_is_read_whole(client: BrokerClient) -> None:
    answer = await client.send(ListGroupsRequest())

    assert [answer.groups[0].group_id, answer.groups[-1].group_id] == [
        "group-0",
        f"group-{GROUPS - 1}",
    ]


@pytest.mark.parametrize("breakers", [[cut_in_the_middle], [reset]])
async def test_a_broken_connection_is_an_os_error_and_the_next_request_opens_another(
    client: BrokerClient,
) -> None:
    with pytest.raises(OSError):  # noqa: PT011  which one depends on what was noticed first
        await client.send(HeartbeatRequest())

    assert (await client.send(HeartbeatRequest())).throttle_time_ms == 7


@pytest.mark.parametrize("breakers", [[nothing]])
async def test_a_peer_that_says_nothing_is_given_up_in_time(client: BrokerClient) -> None:
    with pytest.raises(TimeoutError):
        await client.send(HeartbeatRequest(), timeout_ms=50)

    assert (await client.send(HeartbeatRequest())).throttle_time_ms == 7


async def test_a_closed_port_is_refused() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    end_point = EndPoint(listener_name="PLAINTEXT", host="127.0.0.1", port=port)

    with pytest.raises(ConnectionRefusedError):
        await BrokerClient(end_point, "1", 20_000).send(HeartbeatRequest())


@pytest.mark.parametrize("way", [PLAIN_WAY, Way(connect_unverified)], ids=["plain", "tls"])
@pytest.mark.parametrize("host", ["no-such-host.invalid", f"{'x' * 70}.invalid", ".invalid"])
async def test_a_host_nobody_knows_is_an_os_error(way: Way, host: str) -> None:
    end_point = EndPoint(listener_name="PLAINTEXT", host=host, port=1)

    with pytest.raises(OSError):  # noqa: PT011  the loops have different classes for it
        await BrokerClient(end_point, "1", 20_000, way=way).send(HeartbeatRequest())
