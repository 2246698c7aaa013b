"""A SocketServer in a thread of its own, and raw sockets that speak to it.

Nothing of a broker is behind it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.socket_server_config import SocketServerConfig
from kbroker.config.tls_settings import tls_settings
from kbroker.model import EndPoint
from kbroker.network.handshakes import Handshakes
from kbroker.network.listener_parts import ListenerParts
from kbroker.network.request_handler_pool import Handle
from kbroker.network.socket_server import SocketServer
from kbroker.network.tls_wire import TlsListener
from kbroker.network.unserved_clients import UnservedClients
from kbroker.network.wire import MakeWire, SocketWire
from kbroker.server.start.event_loop import EventLoopKind, run_on_loop
from kbroker.server.system_clock import SystemClock
from kbroker.tls.tls_context import ServerTls, server_context
from tests.fakes.certificates import Authority
from tests.fakes.requests.xor_wire import Pad, XorWire


class TlsSides(NamedTuple):
    """The contexts of both sides of a connection."""

    server: ServerTls
    client: ssl.SSLContext


@cache
def tls_sides() -> TlsSides:
    """Contexts that trust each other, without a client's certificate."""
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        settings = {"listeners": "SSL://localhost:0", **authority.issue("broker").settings()}
        server = server_context(tls_settings(KafkaConfig(settings), "SSL"))
        return TlsSides(server, ssl.create_default_context(cafile=authority.certificate))


@dataclass(frozen=True)
class Way:
    """How a server is reached: its event loop, and what its wires do with bytes."""

    loop: EventLoopKind
    protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        return f"{self.loop.value}-{self.protocol}"


LOOPS = [Way(EventLoopKind.UVLOOP), Way(EventLoopKind.ASYNCIO)]
WAYS = [*LOOPS, *(Way(way.loop, "SSL") for way in LOOPS)]


class SmallServer:
    """Serves `handle` on a free port of 127.0.0.1 until the `with` block ends."""

    def __init__(self, handle: Handle, way: Way, **settings: object) -> None:
        self._handle = handle
        self._way = way
        self._settings = settings
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.port = 0
        self.server: SocketServer | None = None
        self._thread = threading.Thread(target=lambda: run_on_loop(self._main(), self._way.loop))

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        config = SocketServerConfig(**self._settings)  # type: ignore[arg-type]
        listener = EndPoint(
            listener_name="TEST", host="127.0.0.1", port=0, security_protocol=self._way.protocol
        )
        handshakes = Handshakes()
        self.server = SocketServer(
            config,
            [listener],
            self._handle,
            SystemClock(),
            unserved=UnservedClients(),
            make_parts=lambda _: ListenerParts(self._make_wire(handshakes)),
        )
        (bound,) = await self.server.start()
        self.server.enable_request_processing()
        self.port = bound.port
        self._ready.set()
        await self._stop.wait()
        await self.server.shutdown()
        handshakes.close()

    def _make_wire(self, handshakes: Handshakes) -> MakeWire:
        if self._way.protocol == "SSL":
            return TlsListener(tls_sides().server, handshakes, lambda _: None).make_wire
        return {"PLAINTEXT": SocketWire, "XOR": XorWire}[self._way.protocol]

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(5), "the server did not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)
        assert not self._thread.is_alive(), "the server did not stop"

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Have the server's event loop call it."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(callback)

    def connect(self) -> RawConnection:
        """A new connection to the server."""
        return RawConnection(self.port, self._way.protocol)


class TlsEnd:
    """A client's end of TLS over a blocking socket; one thread may send while another receives,
    which OpenSSL alone does not allow.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = threading.Lock()
        self._came, self._leaves = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = tls_sides().client
        self._tls = context.wrap_bio(self._came, self._leaves, server_hostname="localhost")
        with suppress(ConnectionError):  # of a server that wants no more connections
            while not self._is_agreed():
                self._socket.sendall(self._leaves.read())
                chunk = self._socket.recv(65_536)
                if not chunk:
                    return
                self._came.write(chunk)
            self._socket.sendall(self._leaves.read())

    def turn_out(self, data: bytes) -> bytes:
        """The bytes encrypted."""
        with self._lock:
            self._tls.write(data)
            return self._leaves.read()

    def turn_in(self, chunk: bytes) -> bytes:
        """The bytes that can be read now; empty at the end."""
        with self._lock:
            self._came.write(chunk)
            read = bytearray()
            try:
                while more := self._tls.read(65_536):
                    read += more
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                pass
            return bytes(read)

    def _is_agreed(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True


class PadEnd:
    """A client's end of an XorWire."""

    def __init__(self) -> None:
        out, back = Pad(), Pad()
        self.turn_out, self.turn_in = out.turn, back.turn


class RawConnection:
    """A blocking socket that sends what it is told and reads whole frames."""

    def __init__(self, port: int, protocol: str = "PLAINTEXT") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._end: TlsEnd | PadEnd | None = None
        if protocol != "PLAINTEXT":
            self._end = TlsEnd(self.socket) if protocol == "SSL" else PadEnd()
        self._received = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        """Send bytes as they are, at once; with TLS each part is a record."""
        end = self._end
        self.socket.sendall(b"".join(end.turn_out(part) if end else part for part in parts))

    def send_frame(self, frame: bytes) -> None:
        """Send a frame with its size."""
        self.send(struct.pack(">i", len(frame)) + frame)

    def read_frame(self) -> bytes:
        """The next whole frame, without its size."""
        size = struct.unpack(">i", self._read(4))[0]
        return self._read(size)

    def is_closed_by_peer(self) -> bool:
        """True when the server closes without another byte within the time limit."""
        try:
            while chunk := self.socket.recv(1 << 16):
                if self._end is None or self._end.turn_in(chunk):
                    return False
        except ConnectionError:
            pass
        return True

    def stays_silent(self, seconds: float) -> bool:
        """True when neither bytes nor the end come for so long."""
        self.socket.settimeout(seconds)
        try:
            while chunk := self.socket.recv(1 << 16):
                if self._end is None or self._end.turn_in(chunk):
                    return False
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(5)
        return False

    def _read(self, size: int) -> bytes:
        while len(self._received) < size:
            chunk = self.socket.recv(262_144)
            if not chunk:
                raise ConnectionError("closed")
            self._received += self._end.turn_in(chunk) if self._end else chunk
        data = bytes(self._received[:size])
        del self._received[:size]
        return data
