"""A SocketServer in a thread of its own, and raw sockets that speak to it.

Nothing of a broker is behind it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from kbroker.config.socket_server_config import SocketServerConfig
from kbroker.model import EndPoint
from kbroker.network.listener_parts import ListenerParts
from kbroker.network.request_handler_pool import Handle
from kbroker.network.socket_server import SocketServer
from kbroker.network.unserved_clients import UnservedClients
from kbroker.network.wire import SocketWire
from kbroker.server.start.event_loop import EventLoopKind, run_on_loop
from kbroker.server.system_clock import SystemClock
from tests.fakes.requests.xor_wire import Pad, XorWire

WIRES = {"PLAINTEXT": SocketWire, "XOR": XorWire}


@dataclass(frozen=True)
class Way:
    """How a server is reached: its event loop, and what its wires do with bytes."""

    loop: EventLoopKind
    protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        return f"{self.loop.value}-{self.protocol}"


LOOPS = [Way(EventLoopKind.UVLOOP), Way(EventLoopKind.ASYNCIO)]
WAYS = [*LOOPS, *(Way(way.loop, "XOR") for way in LOOPS)]


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
        self.server = SocketServer(
            config,
            [listener],
            self._handle,
            SystemClock(),
            unserved=UnservedClients(),
            make_parts=lambda each: ListenerParts(WIRES[each.security_protocol]),
        )
        (bound,) = await self.server.start()
        self.server.enable_request_processing()
        self.port = bound.port
        self._ready.set()
        await self._stop.wait()
        await self.server.shutdown()

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


class RawConnection:
    """A blocking socket that sends what it is told and reads whole frames."""

    def __init__(self, port: int, protocol: str = "PLAINTEXT") -> None:
        self._pads = (Pad(), Pad()) if protocol == "XOR" else None
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(self._pads[0].turn(data) if self._pads else data)

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
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def stays_silent(self, seconds: float) -> bool:
        """True when neither bytes nor the end come for so long."""
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(1)
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
            self._received += self._pads[1].turn(chunk) if self._pads else chunk
        data = bytes(self._received[:size])
        del self._received[:size]
        return data
