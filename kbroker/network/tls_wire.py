"""TlsWire: a wire that encrypts, by OpenSSL on the socket itself.

The loop watches the socket; received records are decrypted into the channel's buffer and sent ones
encrypted from the channel's pieces, without a buffer between. Idle connections hold no buffers, as
Python lets OpenSSL give them back.

Law: what OpenSSL holds is handed on before the socket is waited for, but not while the receiver
has paused, and after so many bytes other connections have their turn.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from fcntl import ioctl
from termios import FIONREAD
from typing import cast

from kbroker.network.handshakes import HandshakeError, Handshakes, check_beginning
from kbroker.network.receive_buffers import Buffer as Space
from kbroker.network.strangers import network_of
from kbroker.network.wire import LINGER_S, Receiver
from kbroker.protocol.request import ConnectionInfo
from kbroker.tls.socket_waits import ended, readable
from kbroker.tls.tls_context import ServerTls, other_suite

ReadInto = Callable[[int, Space], int]

RECORD_BYTES = 16 * 1024  # the most in one record
_READ_BYTES = 256 * 1024  # in one turn of the loop
_FILE_BYTES = 64 * 1024  # read at once
# The latter when new keys are to be sent, which the next record goes after.
_NOTHING_YET = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class TlsListener:
    """The TLS of one listener; `tls` may be put in place of another at any time."""

    def __init__(
        self, tls: ServerTls, handshakes: Handshakes, settle: Callable[[ConnectionInfo], None]
    ) -> None:
        """`settle` gives a connection the principal of its certificate, which may be None; it may
        raise ProtocolError.
        """
        self.tls = tls
        self.handshakes = handshakes
        self.settle = settle

    def make_wire(
        self, sock: socket.socket, connection: ConnectionInfo, wide_buffer_bytes: int = 0
    ) -> TlsWire:
        """Put a wire on an accepted socket."""
        return TlsWire(self, sock, connection, wide_buffer_bytes)


class TlsWire:
    """The server's end of one encrypted connection; fulfils Wire."""

    __slots__ = (
        "_closed",
        "_listener",
        "_loop",
        "_opening",
        "_paused",
        "_receiver",
        "_socket",
        "_tls",
        "_waiting",
        "_wide_buffer_bytes",
        "connection",
    )

    def __init__(
        self,
        listener: TlsListener,
        sock: socket.socket,
        connection: ConnectionInfo,
        wide_buffer_bytes: int,
    ) -> None:
        self.connection = connection
        self._listener = listener
        self._socket = sock
        self._tls: ssl.SSLSocket | None = None  # as soon as the other side begins a handshake
        self._loop = asyncio.get_running_loop()
        self._opening: asyncio.Task[None] | None = None
        self._wide_buffer_bytes = wide_buffer_bytes
        self._closed = self._paused = False
        self._waiting = bytearray(4)  # an int of C, how many bytes are in the socket

    async def open(self, receiver: Receiver) -> None:
        """Agree on keys. Raises OSError, and HandshakeError with what to do about it."""
        self._receiver = receiver
        self._opening = asyncio.current_task()
        try:
            await self._agree_or_part()
        except BaseException:
            self._closed = True
            (self._tls or self._socket).close()
            del self._receiver
            raise
        finally:
            self._opening = None
        receiver.connection_made(cast(asyncio.BaseTransport, self))
        self._watch_reading()

    async def _agree_or_part(self) -> None:
        try:
            await self._agree()
        except HandshakeError:
            await ended(self._tls or self._socket, LINGER_S)  # it may still read why
            raise

    async def _agree(self) -> None:
        listener, connection = self._listener, self.connection
        await readable(self._socket)
        check_beginning(self._socket, connection.security_protocol)
        server = listener.tls
        self._tls = tls = server.context.wrap_socket(
            self._socket,
            server_side=True,
            do_handshake_on_connect=False,
            suppress_ragged_eofs=False,  # Python 3.11 takes a reset for one
        )
        await listener.handshakes.complete(tls, network_of(connection.peer_host))
        suite = other_suite(tls, server.suites_of_1_3)
        if suite is not None:
            raise HandshakeError(f"it took {suite}, which is not among ssl.cipher.suites")
        connection.certificate = tls.getpeercert(binary_form=True)
        listener.settle(connection)

    def made(self, transport: asyncio.BaseTransport) -> None:
        """Nothing is kept, as the loop has no transport for it."""

    # Sending.

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int:  # noqa: ARG002  TLS has none
        """Encrypt and send, record by record."""
        write, size = self._open_socket().write, len(data)
        sent = 0
        # OpenSSL keeps a record that did not leave whole, and takes the same bytes again.
        try:
            if size <= RECORD_BYTES:
                return write(data)
            view = memoryview(data)
            while sent < size:
                sent += write(view[sent : sent + RECORD_BYTES])
        except ssl.SSLWantWriteError:
            if not sent:
                raise BlockingIOError from None
        return sent

    def send_file(self, fd: int, position: int, size: int) -> int:
        """Read from the file and send that."""
        data = os.pread(fd, min(size, _FILE_BYTES), position)
        return self.send(data) if data else 0

    def widen(self) -> bool:
        """Enlarge the socket's send buffer, once."""
        if not self._wide_buffer_bytes:
            return False
        self._open_socket().setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._wide_buffer_bytes)
        self._wide_buffer_bytes = 0
        return True

    def watch(self, writable: Callable[[], None]) -> None:
        """Call `writable` whenever the socket has room."""
        self._loop.add_writer(self._open_socket().fileno(), writable)

    def unwatch(self) -> None:
        """Stop watching for room in the socket."""
        if self._tls is not None and not self._closed:
            self._loop.remove_writer(self._tls.fileno())

    # Receiving.

    def pause_reading(self) -> None:
        """Hand on nothing, also of what OpenSSL holds."""
        self._paused = True
        if self._tls is not None and not self._closed:
            self._loop.remove_reader(self._tls.fileno())

    def resume_reading(self) -> None:
        """Hand on what OpenSSL holds, and watch the socket again."""
        self._paused = False
        self._watch_reading()

    def _watch_reading(self) -> None:
        if self._paused or self._closed or self._tls is None:
            return
        self._loop.add_reader(self._tls.fileno(), self._receive)
        if self._tls.pending():
            self._loop.call_soon(self._receive)

    def _receive(self) -> None:
        """Hand on what has come, up to a bound."""
        left = _READ_BYTES
        while not (self._paused or self._closed):
            receiver = self._receiver
            buffer = cast("Space", receiver.get_buffer(-1))
            try:
                count, ends = self._read_into(buffer)
            except OSError as error:
                self._lost(error)
                return
            receiver.buffer_updated(count)
            if ends:
                self._end()
            # The loop tells of what is in the socket, but not of what OpenSSL holds.
            if ends or count < len(buffer):
                return
            left -= count
            if left <= 0:
                self._loop.call_soon(self._receive)
                return

    def _read_into(self, buffer: Space) -> tuple[int, bool]:
        """Read until a frame is whole and no other has come, or the buffer is full. Returns how
        many bytes that were, and whether the other side sends no more. Raises OSError.
        """
        read: ReadInto = self._open_socket().read  # type: ignore[assignment]  # `recv_into` adds a call
        receiver, size = self._receiver, len(buffer)
        try:
            count = more = read(size, buffer)
        except _NOTHING_YET:
            return 0, False
        view = memoryview(buffer)
        try:
            # Many clients send a frame in several records. Others send several frames at once,
            # whose answers then leave together.
            while more and count < size and (receiver.wants_more(count) or self._has_come()):
                more = read(size - count, view[count:])
                count += more
        except _NOTHING_YET:
            pass
        return count, not more

    def _has_come(self) -> bool:
        """Whether there is something in the socket: to ask costs half of a read in vain."""
        ioctl(self._open_socket().fileno(), FIONREAD, self._waiting)
        return any(self._waiting)

    def _end(self) -> None:
        """The other side sends no more."""
        if self._closed:
            return
        self._loop.remove_reader(self._open_socket().fileno())
        if not self._receiver.eof_received():
            self.close()

    # Closing.

    def close(self) -> None:
        """Say so to the other side, without waiting for what it says, and close the socket."""
        if self._opening is not None:
            self._opening.cancel()
        elif not self._closed and self._tls is not None:
            with suppress(OSError, ValueError):
                self._tls.unwrap()
            self._lost(None)

    def _lost(self, error: OSError | None) -> None:
        if self._closed:
            return
        tls = self._open_socket()
        self._loop.remove_reader(tls.fileno())
        self._loop.remove_writer(tls.fileno())
        self._closed = True
        tls.close()
        self._loop.call_soon(self._receiver.connection_lost, error)
        del self._receiver  # which knows its wire: a cycle is work for the collector

    def _open_socket(self) -> ssl.SSLSocket:
        if self._tls is None or self._closed:
            raise ConnectionResetError("the connection is closed")
        return self._tls
