"""Sends the pieces of answers over one socket, in order, file slices without reading them.

The writer works on the non-blocking socket itself, beside the transport that reads from it: `send`
for what is in memory, `sendfile` for slices of files. Nothing is copied into a write buffer; when
the socket is full the rest of the pieces waits here for writability. A connection has one request
in work, so there is at most one answer in it, and the small ones before it that were held back to
leave together: that bounds what a client can hold by not reading.

A socket that a slice fills up is given a larger send buffer, once: a client that fetches megabytes
then finds them there, and does not wait for the loop at every 100 KiB. Pages of files are not
copied into it.

Law: bytes leave in the order of `write` calls; after an error nothing leaves any more.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from struct import Struct

from kbroker.protocol.request import FileSlice, Piece

_SIZE = Struct(">i")
_JOIN_BYTES_MAX = 64 * 1024  # up to here one copy costs less than a second system call
_COPY_BYTES_MAX = 256 * 1024
_REST_BYTES_MAX = 64 * 1024  # of an answer that fills the socket; more is worth a larger buffer
# Said by file systems that cannot send files.
_NO_SENDFILE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
_MORE_FOLLOWS = getattr(socket, "MSG_MORE", 0)


class ResponseWriter:
    """The sending half of a connection. Raises OSError when the peer is gone."""

    __slots__ = (
        "_drained",
        "_failed",
        "_held",
        "_holding",
        "_loop",
        "_pending",
        "_poll_fd",
        "_socket",
        "_wide_buffer_bytes",
        "bytes_out",
    )

    def __init__(
        self,
        sock: socket.socket,
        loop: asyncio.AbstractEventLoop,
        drained: Callable[[], None],
        failed: Callable[[OSError], None],
        wide_buffer_bytes: int = 0,
    ) -> None:
        """`drained` is called when a `write` that was False has left, `failed` when it cannot.

        `wide_buffer_bytes` is what SO_SNDBUF may become, 0 for what it is.
        """
        self._socket = sock
        self._loop = loop
        self._drained = drained
        self._failed = failed
        self._pending: deque[memoryview | _SliceRest] = deque()
        self._held: list[bytes] = []
        self._holding = False
        self._poll_fd = -1
        self._wide_buffer_bytes = wide_buffer_bytes
        self.bytes_out = 0

    @property
    def is_blocked(self) -> bool:
        """True while the peer has not taken all of an answer."""
        return bool(self._pending)

    def write(self, pieces: list[Piece]) -> bool:
        """Send one frame made of `pieces`, or hold it; True when all of it has left, or will with
        `release`.
        """
        if len(pieces) == 1 and isinstance(pieces[0], bytes):
            body = pieces[0]
            return self._send_small(_SIZE.pack(len(body)) + body)
        size = 0
        joined: list[bytes | bytearray | memoryview] = []
        for piece in pieces:
            size += len(piece)
            if isinstance(piece, bytes | bytearray | memoryview):
                joined.append(piece)
        prefix = _SIZE.pack(size)
        if len(joined) == len(pieces) and size <= _JOIN_BYTES_MAX:
            return self._send_small(b"".join((prefix, *joined)))
        was_blocked = not self.release()
        self._queue(prefix, pieces)
        if was_blocked:
            return False
        if self._flush() or (self._widen() and self._flush()):
            return True
        self._watch()
        return False

    def hold(self) -> None:
        """Keep small answers back until `release`: several of one connection then cost one system
        call.
        """
        self._holding = True

    def release(self) -> bool:
        """Send what was held; True when all that was ever written has left."""
        self._holding = False
        held = self._held
        if held:
            frames = held[0] if len(held) == 1 else b"".join(held)
            held.clear()
            return self._send_at_once(frames)
        return not self._pending

    def close(self) -> None:
        """Drop what has not left and stop watching the socket. The socket itself belongs to the
        transport.
        """
        self._pending.clear()
        self._held.clear()
        if self._poll_fd >= 0:
            self._loop.remove_writer(self._poll_fd)
            os.close(self._poll_fd)
            self._poll_fd = -1

    def _send_small(self, frame: bytes) -> bool:
        if self._holding:
            self._held.append(frame)
            return True
        return self._send_at_once(frame)

    def _send_at_once(self, frame: bytes) -> bool:
        if self._pending:
            self._pending.append(memoryview(frame))
            return False
        try:
            sent = self._socket.send(frame)
        except BlockingIOError:
            sent = 0
        self.bytes_out += sent
        if sent == len(frame):
            return True
        self._pending.append(memoryview(frame)[sent:])
        self._watch()
        return False

    def _queue(self, prefix: bytes, pieces: list[Piece]) -> None:
        """Queue a frame; neighbouring small pieces become one."""
        small: list[bytes | bytearray | memoryview] = [prefix]
        for piece in pieces:
            if not len(piece):
                continue
            if isinstance(piece, bytes | bytearray | memoryview):
                if len(piece) <= _JOIN_BYTES_MAX:
                    small.append(piece)
                    continue
                self._queue_joined(small)
                self._pending.append(memoryview(piece))
            else:
                self._queue_joined(small)
                self._pending.append(_SliceRest(piece))
        self._queue_joined(small)

    def _queue_joined(self, small: list[bytes | bytearray | memoryview]) -> None:
        if small:
            self._pending.append(memoryview(b"".join(small)))
            small.clear()

    def _flush(self) -> bool:
        """Send until nothing is left or the socket is full; True when nothing is left."""
        pending = self._pending
        try:
            while pending:
                head = pending[0]
                if isinstance(head, _SliceRest):
                    sent = head.send_to(self._socket)
                else:
                    sent = self._socket.send(head, _MORE_FOLLOWS if len(pending) > 1 else 0)
                self.bytes_out += sent
                if sent == len(head):
                    pending.popleft()
                else:
                    pending[0] = head[sent:]
        except BlockingIOError:
            return False
        return True

    def _widen(self) -> bool:
        """Enlarge the buffer of a full socket; True when there is room again."""
        head = self._pending[0]
        if (
            not self._wide_buffer_bytes
            or not isinstance(head, _SliceRest)
            or len(head) <= _REST_BYTES_MAX
        ):
            return False
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._wide_buffer_bytes)
        self._wide_buffer_bytes = 0
        return True

    def _watch(self) -> None:
        if self._poll_fd < 0:
            # The loop refuses to watch a descriptor that a transport owns; a duplicate is another
            # one to it.
            self._poll_fd = os.dup(self._socket.fileno())
        self._loop.add_writer(self._poll_fd, self._writable)

    def _writable(self) -> None:
        try:
            if not self._flush():
                return
        except OSError as error:
            self.close()
            self._failed(error)
            return
        self._loop.remove_writer(self._poll_fd)
        os.close(self._poll_fd)
        self._poll_fd = -1
        self._drained()


class _SliceRest:
    """What has not yet left of a file slice."""

    __slots__ = ("_position", "_size", "_slice")

    def __init__(self, file_slice: FileSlice, skip: int = 0) -> None:
        self._slice = file_slice
        self._position = file_slice.position + skip
        self._size = len(file_slice) - skip

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, rest: slice) -> _SliceRest:
        """The rest after `[sent:]`."""
        return _SliceRest(self._slice, self._position - self._slice.position + int(rest.start))

    def send_to(self, sock: socket.socket) -> int:
        """Send as much as the socket takes; returns bytes, raises BlockingIOError when it takes
        none.
        """
        try:
            sent = os.sendfile(sock.fileno(), self._slice.fileno(), self._position, self._size)
        except OSError as error:
            if error.errno not in _NO_SENDFILE:
                raise
            count = min(self._size, _COPY_BYTES_MAX)
            sent = sock.send(os.pread(self._slice.fileno(), count, self._position))
        if sent == 0:
            raise OSError("the log file ends before the slice that is to be sent")
        return sent
