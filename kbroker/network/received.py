"""Bytes that a connection has received and not handled yet, and the buffer in which they lie.

Law: bytes that a request in work still views are never moved or overwritten. `settle` makes room
and gives the buffer back, so it is called only while nothing views it.

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Callable

from kbroker.network.receive_buffers import (
    BASE_BYTES,
    BASE_KEPT_MAX,
    Buffer,
    ReceiveBuffers,
)
from kbroker.protocol.frame import frame_size

_PIPELINED_BYTES_MAX = 256 * 1024  # a buffer grows up to here for a client that fills it


class Received:
    """The received bytes `buffer[start:end]` of one connection.

    `start` is the first byte that belongs to no answered or running request; there is no buffer
    while there are no bytes. The next one should have `hint` bytes: what frames have taken here.
    """

    __slots__ = ("_buffers", "_is_waiting", "buffer", "end", "hint", "start")

    def __init__(self, buffers: ReceiveBuffers) -> None:
        self._buffers = buffers
        self.hint = BASE_BYTES
        self._is_waiting = False  # for memory
        self.buffer: Buffer | None = None
        self.start = self.end = 0

    @property
    def is_wanted(self) -> bool:
        """True while others wait for the memory that is held here."""
        return self._buffers.is_wanted(self)

    def space(self, sizehint: int) -> Buffer:  # noqa: ARG002  as asyncio calls it
        """The memory for the next bytes (a BufferedProtocol's `get_buffer`)."""
        buffer = self.buffer
        if buffer is not None:
            return memoryview(buffer)[self.end :] if self.end else buffer
        buffers = self._buffers
        taken: bytearray | None
        if self.hint > BASE_BYTES:
            taken = buffers.take(self, self.hint) or buffers.take(self, BASE_BYTES)
        else:
            taken = buffers.base.pop() if buffers.base else bytearray(BASE_BYTES)
        assert taken is not None
        self.buffer = taken
        return taken

    def settle(self, granted: Callable[[], object]) -> None:
        """Give the buffer back that has no more bytes, or let the frame fit that has begun.
        `granted` is called later if there is no memory for it now.
        """
        buffer = self.buffer
        if buffer is None:
            return
        size, end = len(buffer), self.end
        if end == size < _PIPELINED_BYTES_MAX:
            # There was more than fitted: fewer, larger reads serve a client that sends ahead.
            self.hint = max(self.hint, 2 * end)
        if self.start < end:
            self._make_room(buffer, granted)
            return
        if 4 * end < size:
            self.hint = max(BASE_BYTES, size // 2)  # it asks for less than it used to
        self.buffer = None
        self.start = self.end = 0
        buffers = self._buffers
        base = buffers.base
        if size == BASE_BYTES and isinstance(buffer, bytearray) and len(base) < BASE_KEPT_MAX:
            base.append(buffer)
        else:
            buffers.put_back(self, buffer)

    def drop(self, *, is_viewed: bool) -> None:
        """The connection is gone; the buffer too, unless a request in work still views it."""
        buffer, self.buffer = self.buffer, None
        if buffer is not None and not is_viewed:
            self._buffers.recycle(buffer)
        self._buffers.release(self, buffer if is_viewed else None)

    def _make_room(self, buffer: Buffer, granted: Callable[[], object]) -> None:
        """Let the frame that has begun fit: move it to the front, or grow a full buffer."""
        start, end = self.start, self.end
        needed = frame_size(buffer, start, end)
        if start + needed <= len(buffer):
            return
        grows = needed > len(buffer) or self.hint > len(buffer)
        if grows and end < len(buffer):
            return  # no memory for a claim: first the buffer fills
        received = memoryview(buffer)[start:end]
        larger = self._buffers.larger(self, buffer, received, self.hint) if grows else None
        if larger is not None:
            self.buffer = larger
        elif needed <= len(buffer):
            memoryview(buffer)[: end - start] = received
        else:
            self._wait_for_memory(granted)
            return
        self.start, self.end = 0, end - start

    def _wait_for_memory(self, granted: Callable[[], object]) -> None:
        def is_granted() -> bool:
            self._is_waiting = False
            granted()
            return self.buffer is not None

        if not self._is_waiting:
            self._is_waiting = True
            self._buffers.wait(self, is_granted)
