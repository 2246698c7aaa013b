"""TlsTransport: a connection over TLS that this side has opened, with the calls that a
BufferedProtocol makes of an event loop's transport.

Straight on a socket that does not block: bytes are decrypted into the memory that the protocol
gives, while asyncio's own TLS copies them once more and holds 256 KiB for each connection.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from kbroker.tls.socket_waits import readable, writable
from kbroker.tls.tls_context import other_suite

Explain = Callable[[OSError], OSError]
"""Makes of OpenSSL's error the one that the protocol hears of."""

# A turn of the loop takes so many records of at most 16 KiB; others wait meanwhile.
_RECORDS_PER_TURN = 16
_PIECE_BYTES = 64 * 1024  # encrypted at once
_HIGH_BYTES, _LOW_BYTES = 64 * 1024, 16 * 1024  # unsent ones, as of asyncio's transports
_BUSY = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class TlsTransport(asyncio.Transport):
    """Made by `open_tls`; the protocol's `connection_made` comes first."""

    def __init__(
        self, sock: ssl.SSLSocket, protocol: asyncio.BufferedProtocol, explain: Explain
    ) -> None:
        super().__init__()
        self._socket, self._fd = sock, sock.fileno()
        self._protocol = protocol
        self._explain = explain
        self._loop = asyncio.get_running_loop()
        self._unsent = bytearray()
        self._is_watched = False  # for room to send
        self._is_paused = False  # the protocol is asked to write no more
        self._is_cut = self._is_closed = False  # by the other side, by this one
        protocol.connection_made(self)
        self._loop.add_reader(self._fd, self._receive)
        self._loop.call_soon(self._receive)  # what came with the end of the handshake

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, now or as soon as there is room."""
        self._unsent += data
        if not self._is_watched and not self._is_closed:
            self._send()

    def is_closing(self) -> bool:
        return self._is_closed

    def abort(self) -> None:
        """Close at once; the other side is still informed that nothing is cut off."""
        self._close(None)

    def _receive(self) -> None:
        if self._is_closed:
            return
        for _ in range(_RECORDS_PER_TURN):
            try:
                count = self._socket.recv_into(self._protocol.get_buffer(-1))
            except _BUSY:
                break
            except OSError as error:
                self._close(self._explain(error))
                return
            if not count:
                self._protocol.eof_received()
                self._close(None)
                return
            self._protocol.buffer_updated(count)
            if self.is_closing():
                return
        else:
            self._loop.call_soon(self._receive)  # OpenSSL may hold more, which no socket shows
        if not self._is_watched and not self._is_cut:
            self._send()

    def _send(self) -> None:
        unsent = self._unsent
        try:
            while unsent:
                with memoryview(unsent)[:_PIECE_BYTES] as piece:
                    sent = self._socket.send(piece)
                del unsent[:sent]
        except _BUSY:
            pass  # OpenSSL is given the same bytes again, and maybe more
        except OSError as error:
            self._is_cut = True
            self._receive()  # it may say why
            self._close(self._explain(error))
            return
        self._watch(is_wanted=bool(unsent))
        if not self._is_paused and len(unsent) > _HIGH_BYTES:
            self._is_paused = True
            self._protocol.pause_writing()
        elif self._is_paused and len(unsent) <= _LOW_BYTES:
            self._is_paused = False
            self._protocol.resume_writing()

    def _watch(self, *, is_wanted: bool) -> None:
        if is_wanted is self._is_watched:
            return
        self._is_watched = is_wanted
        if is_wanted:
            self._loop.add_writer(self._fd, self._send)
        else:
            self._loop.remove_writer(self._fd)

    def _close(self, error: OSError | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._fd)
        self._watch(is_wanted=False)
        with suppress(OSError, ValueError):
            self._socket.unwrap()  # sends the end and does not wait for the other's
        self._socket.close()
        self._loop.call_soon(self._protocol.connection_lost, error)


async def open_tls(
    make: Callable[[], asyncio.BufferedProtocol],
    address: tuple[str, int],
    context: ssl.SSLContext,
    explain: Explain,
    suites_of_1_3: tuple[str, ...] = (),
) -> None:
    """Connect to host and port, and make a protocol once both sides trust each other. Raises
    OSError, by `explain` where it is one of TLS. Other suites of TLS 1.3 than those given are
    refused; without any, none is.
    """
    plain = await _connected(*address)
    try:
        sock = context.wrap_socket(plain, server_hostname=address[0], do_handshake_on_connect=False)
    except ValueError as error:  # no certificate can have such a name
        plain.close()
        raise OSError(f"{address[0]!r} cannot stand in a certificate") from error
    try:
        await _shake_hands(sock)
        suite = other_suite(sock, suites_of_1_3)
        if suite is not None:
            raise ssl.SSLError(ssl.SSL_ERROR_SSL, f"it chose {suite}")
    except ssl.SSLError as error:
        sock.close()
        raise explain(error) from error
    except BaseException:
        sock.close()
        raise
    TlsTransport(sock, make(), explain)


async def _connected(host: str, port: int) -> socket.socket:
    """A socket that does not block, at the first address of the host that takes it."""
    loop = asyncio.get_running_loop()
    failure: OSError = OSError(f"no address of {host}")
    for family, kind, protocol, _, address in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


async def _shake_hands(sock: ssl.SSLSocket) -> None:
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            await readable(sock)
        except ssl.SSLWantWriteError:
            await writable(sock)
        else:
            return
