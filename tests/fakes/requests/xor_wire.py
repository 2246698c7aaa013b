"""A wire that encrypts, if only by a moving XOR: proof that another one fits under a Channel.

Like TLS it seals records, keeps what the socket did not take of one, and reads in sizes of its own.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

from kbroker.network.wire import SocketWire
from kbroker.protocol.request import ConnectionInfo

RECORD_BYTES = 16 * 1024
READ_BYTES = 5_000
PRINCIPAL = "User:proved"


class Pad:
    """One direction: no byte is turned twice at the same place of the stream."""

    def __init__(self) -> None:
        self._position = 0

    def turn(self, data: bytes) -> bytes:
        start = self._position % 256
        self._position += len(data)
        pad = (bytes(range(256)) * (len(data) // 256 + 2))[start : start + len(data)]
        return (int.from_bytes(data) ^ int.from_bytes(pad)).to_bytes(len(data))


class XorWire(asyncio.BufferedProtocol):
    """Fulfils Wire. It asserts that what is sent again begins alike."""

    def __init__(
        self, sock: socket.socket, connection: ConnectionInfo, wide_buffer_bytes: int = 0
    ) -> None:
        self.connection = connection
        self._plain = SocketWire(sock, connection)
        self._loop = asyncio.get_running_loop()
        self._out, self._in = Pad(), Pad()
        self._read = bytearray(READ_BYTES)
        self._clear = bytearray()  # received and not yet taken
        self._record = self._sealed = b""  # what did not leave whole
        self._paused = self._ended = self._closed = False
        self.files_sent = 0

    async def open(self, receiver: asyncio.BufferedProtocol) -> None:
        self._receiver = receiver
        self.connection.principal = PRINCIPAL
        await self._plain.open(self)

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int:
        if not self._sealed:
            self._record = bytes(data[:RECORD_BYTES])
            self._sealed = self._out.turn(self._record)
        assert bytes(data[: len(self._record)]) == self._record, "something else was sent"
        self._sealed = self._sealed[self._plain.send(self._sealed) :]
        if self._sealed:
            raise BlockingIOError
        return len(self._record)

    def send_file(self, fd: int, position: int, size: int) -> int:
        self.files_sent += 1
        data = os.pread(fd, min(size, RECORD_BYTES), position)
        return self.send(data) if data else 0

    def widen(self) -> bool:
        return False

    def watch(self, writable: Callable[[], None]) -> None:
        self._plain.watch(writable)

    def unwatch(self) -> None:
        self._plain.unwatch()

    def made(self, transport: asyncio.BaseTransport) -> None:
        """The plain wire has it."""

    def pause_reading(self) -> None:
        self._paused = True
        self._plain.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        self._plain.resume_reading()
        self._loop.call_soon(self._hand_on)

    def close(self) -> None:
        self._closed = True
        self._plain.close()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._plain.made(transport)
        self._receiver.connection_made(transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._read

    def buffer_updated(self, nbytes: int) -> None:
        self._clear += self._in.turn(bytes(self._read[:nbytes]))
        self._hand_on()

    def eof_received(self) -> bool:
        self._ended = True
        self._hand_on()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._receiver.connection_lost(exc)

    def _hand_on(self) -> None:
        while self._clear and not self._paused and not self._closed:
            buffer = self._receiver.get_buffer(-1)
            count = min(len(buffer), len(self._clear))
            buffer[:count] = self._clear[:count]
            del self._clear[:count]
            self._receiver.buffer_updated(count)
        if self._ended and not self._clear and not self._closed:
            self._ended = False
            self._receiver.eof_received()
