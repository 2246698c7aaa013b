"""Wire: a connection as a Channel and its ResponseWriter use it, and the plain one.

A wire carries bytes both ways. It passes received bytes to the Channel as an event loop does (a
BufferedProtocol's four calls), and the Channel and its writer call it for everything else. A wire
that encrypts stands in the same place: it answers `open` when both sides have agreed on keys, names
in `connection` the identity that the other side has proved, and reads the file slices it sends.

Law of sending, as of a socket that does not block: `send` and `send_file` return how much has left
and raise BlockingIOError when nothing has. The caller then calls again, when `watch` says so, with
bytes that begin alike; so a wire may already have encrypted them, and keeps the result.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Protocol, cast

from kbroker.protocol.request import ConnectionInfo

# Said by file systems that cannot send files.
_NO_SENDFILE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
_COPY_BYTES_MAX = 256 * 1024

LINGER_S = 0.1
"""Between the last bytes for a client that is refused and the end of its connection, so that it
reads them, unless it ends the connection itself."""

MORE_FOLLOWS = getattr(socket, "MSG_MORE", 0)


class Receiver(asyncio.BufferedProtocol):
    """A receiver of frames, as wires see it."""

    __slots__ = ()

    def wants_more(self, nbytes: int) -> bool:  # noqa: ARG002  for those who know frames
        """Whether a frame is still not whole with so many bytes that are in the buffer, of which
        `buffer_updated` has not been called.
        """
        return False


class Send(Protocol):
    """A way to send bytes in memory."""

    def __call__(self, data: bytes | memoryview, flags: int = 0, /) -> int:
        """Returns the number of bytes that have left; `flags` may be MORE_FOLLOWS. Raises
        BlockingIOError when none has, OSError when none will.
        """
        ...


class Wire(Protocol):
    """A connection that has been accepted."""

    connection: ConnectionInfo
    """Who is on the other end; its principal is settled before the Channel hears of it."""

    @property
    def send(self) -> Send:
        """Sends bytes. Looked up once: the plain wire's is the socket's own method."""
        ...

    def send_file(self, fd: int, position: int, size: int) -> int:
        """Send `size` bytes of an open file from `position` on; returns how many have left, 0 when
        the file has ended. Raises as `send`.
        """
        ...

    def widen(self) -> bool:
        """Make room for a long file slice; True when there is more than there was."""
        ...

    def watch(self, writable: Callable[[], None]) -> None:
        """Call `writable` whenever something can be sent, until `unwatch`."""
        ...

    def unwatch(self) -> None:
        """Stop that; without a `watch` it does nothing."""
        ...

    async def open(self, receiver: Receiver) -> None:
        """Settle the connection and begin to receive; `connection_made` comes first.

        Raises OSError if that fails, ProtocolError if somebody can do something about it.
        """
        ...

    def made(self, transport: asyncio.BaseTransport) -> None:
        """The receiver passes on the argument of its `connection_made`."""
        ...

    def pause_reading(self) -> None:
        """Give the receiver nothing until `resume_reading`."""
        ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """End the connection; the receiver's `connection_lost` is called when it has ended."""
        ...


class SocketWire:
    """Bytes go over the socket as they are, slices of files without being read.

    The loop's transport receives; sending goes beside it, on the non-blocking socket itself, so
    that nothing is copied into a write buffer.
    """

    __slots__ = (
        "_loop",
        "_poll_fd",
        "_socket",
        "_transport",
        "_wide_buffer_bytes",
        "connection",
        "send",
    )

    def __init__(
        self, sock: socket.socket, connection: ConnectionInfo, wide_buffer_bytes: int = 0
    ) -> None:
        """`wide_buffer_bytes` is the SO_SNDBUF after `widen`, 0 to leave it."""
        self.connection = connection
        self.send: Send = sock.send
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._poll_fd = -1
        self._wide_buffer_bytes = wide_buffer_bytes

    async def open(self, receiver: asyncio.BufferedProtocol) -> None:
        """Receive from the socket. Raises OSError when the other side is gone."""
        await self._loop.connect_accepted_socket(lambda: receiver, self._socket)

    def made(self, transport: asyncio.BaseTransport) -> None:
        """The loop's transport owns the socket from now on."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def send_file(self, fd: int, position: int, size: int) -> int:
        """Let the system copy from the file, or through memory if it cannot."""
        try:
            return os.sendfile(self._socket.fileno(), fd, position, size)
        except OSError as error:
            if error.errno not in _NO_SENDFILE:
                raise
            return self._socket.send(os.pread(fd, min(size, _COPY_BYTES_MAX), position))

    def widen(self) -> bool:
        """Enlarge the socket's send buffer, once."""
        if not self._wide_buffer_bytes:
            return False
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._wide_buffer_bytes)
        self._wide_buffer_bytes = 0
        return True

    def watch(self, writable: Callable[[], None]) -> None:
        """Call `writable` whenever the socket has room."""
        if self._poll_fd < 0:
            # The loop refuses to watch a descriptor that a transport owns; a duplicate is another
            # one to it.
            self._poll_fd = os.dup(self._socket.fileno())
        self._loop.add_writer(self._poll_fd, writable)

    def unwatch(self) -> None:
        """Stop watching the socket."""
        if self._poll_fd >= 0:
            self._loop.remove_writer(self._poll_fd)
            os.close(self._poll_fd)
            self._poll_fd = -1

    def pause_reading(self) -> None:
        """The transport receives nothing."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """The transport receives again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """Close the socket, by way of its transport."""
        if self._transport is not None:
            self._transport.close()


MakeWire = Callable[[socket.socket, ConnectionInfo, int], Wire]
"""Puts a wire on an accepted socket that does not block; the number is what SO_SNDBUF may become
for large answers, 0 for what it is."""
