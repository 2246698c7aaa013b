"""A wire in memory, whose other end takes as many bytes as a test says."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from kbroker.protocol.request import ConnectionInfo


class MemoryWire:
    """Fulfils Wire. What was sent is in `sent`; more than `room` bytes do not fit until they are
    taken.
    """

    def __init__(self, connection: ConnectionInfo, room: int = 1 << 40) -> None:
        self.connection = connection
        self.room = room
        self.sent = bytearray()
        self.is_paused = False
        self.is_closed = False
        self._receiver: asyncio.BufferedProtocol | None = None
        self._writable: Callable[[], None] | None = None

    # What a Channel calls.

    def send(self, data: bytes | memoryview, _flags: int = 0, /) -> int:
        if self.is_closed:
            raise ConnectionResetError
        size = min(len(data), self.room)
        if not size:
            raise BlockingIOError
        self.sent += data[:size]
        self.room -= size
        return size

    def send_file(self, fd: int, position: int, size: int) -> int:
        size = min(size, self.room)
        if not size:
            raise BlockingIOError
        data = os.pread(fd, size, position)
        return self.send(data) if data else 0

    def widen(self) -> bool:
        return False

    def watch(self, writable: Callable[[], None]) -> None:
        self._writable = writable

    def unwatch(self) -> None:
        self._writable = None

    async def open(self, receiver: asyncio.BufferedProtocol) -> None:
        self._receiver = receiver
        receiver.connection_made(asyncio.Transport())

    def made(self, transport: asyncio.BaseTransport) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            assert self._receiver is not None
            asyncio.get_running_loop().call_soon(self._receiver.connection_lost, None)

    # What the other end does.

    def receive(self, data: memoryview) -> int:
        """Let the Channel receive a part of these bytes; how many it took."""
        if self.is_paused or self.is_closed:
            return 0
        assert self._receiver is not None
        buffer = self._receiver.get_buffer(-1)
        size = min(len(buffer), len(data))
        memoryview(buffer)[:size] = data[:size]
        self._receiver.buffer_updated(size)
        return size

    def take(self, size_bytes: int) -> None:
        """Make room for so many bytes more."""
        self.room += size_bytes
        if self._writable is not None:
            asyncio.get_running_loop().call_soon(self._tell_room)

    def _tell_room(self) -> None:
        if self._writable is not None and self.room:
            self._writable()
