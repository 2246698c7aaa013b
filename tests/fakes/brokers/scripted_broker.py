"""A broker that answers by a script, over plain sockets, and listeners that are no brokers.

with ScriptedBroker({MetadataRequest: lambda request: MetadataResponse(...)}) as broker:
    broker.port

An answer of None ends the connection. ApiVersions lists what the script answers.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Self

from kbroker.protocol.codec import decode, encode
from kbroker.protocol.frame import SIZE
from kbroker.protocol.header import decode_request_header, encode_response_header
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.schema import Message

Script = Mapping[type[Message], Callable[[Message], Message | None]]
Talk = Callable[[socket.socket], None]


class Listener:
    """Takes connections on a free port of `host` and gives each to `talk`, in a thread of its own."""

    def __init__(self, talk: Talk, host: str = "127.0.0.1") -> None:
        self._talk = talk
        self._open: list[socket.socket] = []
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _accept(self) -> None:
        talks = []
        while True:
            try:
                connection = self._listener.accept()[0]
            except OSError:
                break
            self._open.append(connection)
            talk = threading.Thread(target=self._serve, args=(connection,))
            talk.start()
            talks.append(talk)
        for talk in talks:
            talk.join()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self._talk(connection)


class ScriptedBroker(Listener):
    """A listener that speaks Kafka's protocol."""

    def __init__(self, script: Script, host: str = "127.0.0.1") -> None:
        super().__init__(self._answer_all, host)
        self.script = dict(script)

    def _answer_all(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            while head := stream.read(SIZE.size):
                (size,) = SIZE.unpack(head)
                answer = self._answer(memoryview(stream.read(size)))
                if answer is None:
                    return
                connection.sendall(SIZE.pack(len(answer)) + answer)

    def _answer(self, frame: memoryview) -> bytes | None:
        header, offset = decode_request_header(frame)
        kinds = {kind.spec.key: kind for kind in (ApiVersionsRequest, *self.script)}
        kind = kinds.get(header.api_key)
        if kind is None:
            return None
        request, _ = decode(kind, header.api_version, frame, offset)
        answer = self._versions() if kind is ApiVersionsRequest else self.script[kind](request)
        if answer is None:
            return None
        head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
        return bytes(encode(answer, header.api_version, head))

    def _versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersionsResponse.ApiVersion(
                    api_key=kind.spec.key or 0,
                    min_version=kind.spec.versions.lowest,
                    max_version=kind.spec.versions.highest,
                )
                for kind in (ApiVersionsRequest, *self.script)
            ]
        )


def silent(connection: socket.socket) -> None:
    """Reads everything and says nothing."""
    while connection.recv(4096):
        pass


def ending(_connection: socket.socket) -> None:
    """Ends the connection at once."""


def saying(words: bytes) -> Talk:
    """Make a talk of words for every client that comes, as servers of mail and shells have."""

    def talk(connection: socket.socket) -> None:
        connection.sendall(words)
        silent(connection)

    return talk


def web(connection: socket.socket) -> None:
    """A web server, which waits for a whole request."""
    heard = b""
    while b"\r\n\r\n" not in heard:
        piece = connection.recv(4096)
        if not piece:
            return
        heard += piece
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def zookeeper(connection: socket.socket) -> None:
    """A ZooKeeper: ends what is no request of its own, and says what it is if asked."""
    if connection.recv(4) == b"srvr":
        connection.sendall(b"Zookeeper version: 3.9.2\nLatency min/avg/max: 0/0/0\n")


@contextmanager
def bound_port() -> Iterator[int]:
    """Yield a port that nobody else gets, and at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextmanager
def full_port() -> Iterator[int]:
    """Yield a port at which connections are no longer taken: as many wait as may."""
    with socket.socket() as listener, ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            each = waiting.enter_context(socket.socket())
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
