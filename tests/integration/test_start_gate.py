"""A broker that starts, over real connections: the controller is heard, clients wait."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from kbroker.config.socket_server_config import SocketServerConfig
from kbroker.model import EndPoint
from kbroker.network.socket_server import SocketServer
from kbroker.network.unserved_clients import UnservedClients
from kbroker.protocol.header import RequestHeader, encode_request_header
from kbroker.protocol.request import Request, Response
from kbroker.server.system_clock import SystemClock
from tests.golden.wire.declared_messages import all_messages

METADATA, UPDATE_METADATA, API_VERSIONS = 3, 6, 18
QUEUED = 20
all_messages()  # a header is read only where its message is known


class Client:
    """One connection; the server answers with the body it got."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    def send(self, key: int, body: bytes) -> None:
        frame = encode_request_header(RequestHeader(key, 0, 1, "c")) + body
        self.writer.write(struct.pack(">i", len(frame)) + frame)

    async def answer(self) -> bytes:
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return await self._reader.readexactly(size)

    async def ask(self, key: int, body: bytes) -> bytes:
        self.send(key, body)
        return await self.answer()


def echo(request: Request) -> Response:
    return Response([bytes(request.frame[request.body_offset :])])


async def received(server: SocketServer, count: int) -> None:
    while server.request_channel.requests.value < count:  # noqa: ASYNC110  nothing tells of it
        await asyncio.sleep(0.001)


@pytest.fixture
async def server() -> AsyncIterator[SocketServer]:
    listener = EndPoint(listener_name="PLAINTEXT", host="127.0.0.1", port=0)
    config = SocketServerConfig(queued_max_requests=QUEUED)
    server = SocketServer(config, [listener], echo, SystemClock(), unserved=UnservedClients())
    yield server
    await server.shutdown()


@pytest.fixture
async def connect(server: SocketServer) -> AsyncIterator[Callable[[], Awaitable[Client]]]:
    """To the server, which listens and answers nobody yet."""
    (bound,) = await server.start()
    clients: list[Client] = []

    async def connect() -> Client:
        clients.append(Client(*await asyncio.open_connection("127.0.0.1", bound.port)))
        return clients[-1]

    yield connect
    for client in clients:
        client.writer.close()


async def test_the_controller_is_answered_while_any_number_of_clients_wait(
    server: SocketServer, connect: Callable[[], Awaitable[Client]]
) -> None:
    server.enable_controller_requests()
    waiting = [await connect() for _ in range(5 * QUEUED)]
    for number, client in enumerate(waiting):
        client.send(METADATA, b"%d" % number)
    await received(server, len(waiting))
    controller = await connect()

    assert await controller.ask(API_VERSIONS, b"") == b""
    assert await controller.ask(UPDATE_METADATA, b"news") == b"news"

    server.enable_request_processing()
    answers = [await client.answer() for client in waiting]
    assert answers == [b"%d" % number for number in range(len(waiting))]


async def test_a_large_request_that_waited_is_the_one_that_was_sent(
    server: SocketServer, connect: Callable[[], Awaitable[Client]]
) -> None:
    server.enable_controller_requests()
    body = bytes(range(256)) * 2_000
    client, controller = await connect(), await connect()
    client.send(METADATA, body)
    client.send(METADATA, b"next")
    for _ in range(50):
        await controller.ask(UPDATE_METADATA, bytes(10_000))

    server.enable_request_processing()

    assert await client.answer() == body
    assert await client.answer() == b"next"


async def test_what_came_before_anything_was_answered_is_answered_in_its_turn(
    server: SocketServer, connect: Callable[[], Awaitable[Client]]
) -> None:
    client, controller = await connect(), await connect()
    client.send(METADATA, b"client")
    controller.send(UPDATE_METADATA, b"controller")
    await received(server, 2)

    server.enable_controller_requests()
    assert await controller.answer() == b"controller"
    server.enable_request_processing()
    assert await client.answer() == b"client"
