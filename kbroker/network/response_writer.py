"""Sends the pieces of answers over one wire, in order, long file slices without reading them.

A small answer leaves with one system call, its slices read. Nothing of a large one is copied into a
write buffer; when the wire takes no more the rest of the pieces waits here until it does. A
connection has one request in work, so there is at most one answer in it, and the small ones before
it that were held back to leave together: that bounds what a client can hold by not reading.

A wire that a slice fills up is widened, once: a client that fetches megabytes then finds them
there, and does not wait for the loop at every 100 KiB. Pages of files are not copied into it.

Law: bytes leave in the order of `write` calls, and nothing leaves after an error: a client matches
answers by their order, and cannot resume inside one. A slice leaves whole or ends the connection: a
file may have been cut, or its disk have failed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any

from kbroker.network.wire import MORE_FOLLOWS, Wire
from kbroker.protocol.request import FileSlice, Piece

_SIZE = Struct(">i")
_JOIN_BYTES_MAX = 64 * 1024  # up to here one copy costs less than a second system call
_READ_BYTES_MAX = 32 * 1024  # and reading a slice less than sendfile, which takes two more of them
_HELD_BYTES_MAX = 8 * 1024  # of an answer: as many as leave together may be of this size
_REST_BYTES_MAX = 64 * 1024  # of an answer that fills the wire: beyond this, widening pays

# For writers that never had to wait: an empty deque takes 760 bytes. It stays empty.
_NOTHING: deque[memoryview | _SliceRest] = deque(maxlen=0)


_ENDS_EARLY = "the log file ends before the slice to send"
_IN_MEMORY = (bytes, memoryview, bytearray)


class ResponseWriter:
    """The sending half of a connection. Raises OSError when the peer is gone."""

    __slots__ = (
        "_drained",
        "_failed",
        "_pending",
        "_send",
        "_wire",
        "bytes_out",
        "held",
        "is_holding",
    )

    def __init__(
        self,
        wire: Wire,
        drained: Callable[[], None],
        failed: Callable[[OSError], None],
    ) -> None:
        """`drained` is called when a `write` that returned False has left, `failed` if not."""
        self._wire = wire
        self._send = wire.send
        self._drained = drained
        self._failed = failed
        self._pending: deque[memoryview | _SliceRest] = _NOTHING
        self.held: list[bytes] = []  # frames with their sizes, until `release`
        # Small answers stay until `release`: several of a connection cost one system call.
        self.is_holding = False
        self.bytes_out = 0

    @property
    def is_blocked(self) -> bool:
        """True while the peer has not taken all of an answer."""
        return bool(self._pending)

    @property
    def pending_bytes(self) -> int:
        """Bytes of answers in memory that the peer has not taken."""
        return sum(len(rest) for rest in self._pending if isinstance(rest, memoryview))

    def write(self, pieces: list[Piece]) -> bool:
        """Send a frame of `pieces` or hold it; True if all has left, or will with `release`."""
        if len(pieces) == 1 and isinstance(pieces[0], bytes):
            body = pieces[0]
            self.held += (_SIZE.pack(len(body)), body)
            return self.is_holding or self.release()
        size = 0
        most = _JOIN_BYTES_MAX
        for piece in pieces:
            size += len(piece)
            if not isinstance(piece, _IN_MEMORY):
                most = _READ_BYTES_MAX
        prefix = _SIZE.pack(size)
        if size <= most:
            joined: list[Any] = [prefix, *pieces]
            for at, piece in enumerate(pieces, 1):
                if not isinstance(piece, _IN_MEMORY):
                    joined[at] = _read(piece)
            return self._send_small(b"".join(joined))
        is_holding = self.is_holding
        was_blocked = not self.release()
        self.is_holding = is_holding  # or later ones would overtake those held after this one
        self._queue(prefix, pieces)
        if was_blocked:
            return False
        if self._flush() or (self._widen() and self._flush()):
            return True
        self._wire.watch(self._writable)
        return False

    def release(self) -> bool:
        """Send the held answers; True when all that was ever written has left."""
        self.is_holding = False
        held = self.held
        if not held:
            return not self._pending
        frames = b"".join(held)
        held.clear()
        if self._pending:
            self._pending.append(memoryview(frames))
            return False
        try:
            sent = self._send(frames) if frames else 0
        except BlockingIOError:
            sent = 0
        self.bytes_out += sent
        if sent == len(frames):
            return True
        self._pending = deque((memoryview(frames)[sent:],))
        self._wire.watch(self._writable)
        return False

    def close(self) -> None:
        """Drop what has not left and stop watching the wire. The wire itself is the channel's,
        which is known no more, so that the collector of cycles has nothing to do.
        """
        self._pending.clear()
        self.held.clear()
        self._wire.unwatch()
        self._drained, self._failed = _nothing, _nothing

    def _send_small(self, frame: bytes) -> bool:
        held = self.held
        held.append(frame)
        if not self.is_holding:
            return self.release()
        if len(frame) < _HELD_BYTES_MAX or sum(map(len, held)) < _JOIN_BYTES_MAX:
            return True
        has_left = self.release()
        self.is_holding = True
        return has_left

    def _queue(self, prefix: bytes, pieces: list[Piece]) -> None:
        """Queue a frame; neighbouring small pieces become one, never a large one."""
        if self._pending is _NOTHING:
            self._pending = deque()
        small: list[bytes | bytearray | memoryview] = [prefix]
        small_bytes = 0
        for piece in pieces:
            if not len(piece):
                continue
            if isinstance(piece, _IN_MEMORY):
                if len(piece) <= _JOIN_BYTES_MAX - small_bytes:
                    small.append(piece)
                    small_bytes += len(piece)
                    continue
                self._queue_joined(small)
                small_bytes = 0
                self._pending.append(memoryview(piece))
            else:
                self._queue_joined(small)
                small_bytes = 0
                self._pending.append(_SliceRest(piece))
        self._queue_joined(small)

    def _queue_joined(self, small: list[bytes | bytearray | memoryview]) -> None:
        if small:
            self._pending.append(memoryview(b"".join(small)))
            small.clear()

    def _flush(self) -> bool:
        """Send until nothing is left or the wire is full; True when nothing is left."""
        pending = self._pending
        try:
            while pending:
                head = pending[0]
                if isinstance(head, _SliceRest):
                    sent = head.send_to(self._wire)
                else:
                    sent = self._send(head, MORE_FOLLOWS if len(pending) > 1 else 0)
                self.bytes_out += sent
                if sent == len(head):
                    pending.popleft()
                else:
                    pending[0] = head[sent:]
        except BlockingIOError:
            return False
        return True

    def _widen(self) -> bool:
        """Widen a full wire for a long slice; True when there is room again."""
        head = self._pending[0]
        is_long_slice = isinstance(head, _SliceRest) and len(head) > _REST_BYTES_MAX
        return is_long_slice and self._wire.widen()

    def _writable(self) -> None:
        try:
            if not self._flush():
                return
        except OSError as error:
            failed = self._failed
            self.close()
            failed(error)
            return
        self._wire.unwatch()
        self._drained()


def _nothing(_: object = None) -> None:
    """Stand in for what a connection that is gone would do."""


def _read(file_slice: FileSlice) -> bytes:
    """The bytes of a slice, or OSError if its file no longer has all of them."""
    size = len(file_slice)
    data = os.pread(file_slice.fileno(), size, file_slice.position) if size else b""
    if len(data) != size:
        raise OSError(_ENDS_EARLY)
    return data


class _SliceRest:
    """The part of a file slice that has not left yet."""

    __slots__ = ("_position", "_size", "_slice")

    def __init__(self, file_slice: FileSlice, skip: int = 0) -> None:
        self._slice = file_slice
        self._position = file_slice.position + skip
        self._size = len(file_slice) - skip

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, rest: slice) -> _SliceRest:
        """The rest after the first bytes were sent."""
        return _SliceRest(self._slice, self._position - self._slice.position + int(rest.start))

    def send_to(self, wire: Wire) -> int:
        """Send as much as the wire takes; returns bytes. Raises as `Wire.send` does."""
        sent = wire.send_file(self._slice.fileno(), self._position, self._size)
        if sent == 0:
            raise OSError(_ENDS_EARLY)
        return sent
