"""TlsLine: TLS between the loop's transport and the HTTP connection above it, by OpenSSL in memory.

What flows is small beside Kafka's, so it may be copied once more; in return the transport of the
loop waits, is paused and ends as it does without TLS.

Law: no byte passes upwards before keys are agreed on. A request that comes without TLS gets a
sentence. What the connection does not read for now waits here: no more than one look at the socket
has brought.

Owned by the loop of the HTTP thread.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from kbroker.tls.tls_context import ServerTls, other_suite

MakeTls = Callable[[], ServerTls]
"""Returns the TLS in force, for a new connection."""

_READ_BYTES: Final = 64 * 1024
_TLS_HANDSHAKE: Final = 0x16  # the type of a record
_SENTENCE: Final = b"this address speaks https: write https:// in place of http://\n"
_PLAIN_ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_SENTENCE), _SENTENCE)
)


class TlsLine(asyncio.Transport, asyncio.Protocol):
    """One connection: a protocol to the transport below, a transport to the protocol above."""

    def __init__(self, tls: MakeTls, above: asyncio.Protocol) -> None:
        super().__init__()
        self._server = server = tls()
        self._above = above
        self._below: asyncio.Transport
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = server.context.wrap_bio(self._received, self._to_send, server_side=True)
        self._is_begun = self._is_agreed = self._is_paused = False

    # What the transport below calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the connection on, which looks after handshakes too."""
        assert isinstance(transport, asyncio.Transport)
        self._below = transport
        self._above.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand the end on."""
        self._above.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Decrypt what has come, and hand it on."""
        if self.is_closing():
            return
        if not self._is_begun and data[0] != _TLS_HANDSHAKE:
            self._below.write(_PLAIN_ANSWER)
            self._below.close()
            return
        self._is_begun = True
        self._received.write(data)
        self._take()

    def pause_writing(self) -> None:
        """Hand on that the client takes no more for now."""
        self._above.pause_writing()

    def resume_writing(self) -> None:
        """Hand on that it does again."""
        self._above.resume_writing()

    # What the connection above calls.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._below.get_write_buffer_size()

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def pause_reading(self) -> None:
        """Hand on nothing, also of what OpenSSL holds."""
        self._is_paused = True
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """Hand on what OpenSSL holds, and read again."""
        if self._is_paused:
            self._is_paused = False
            self._below.resume_reading()
            asyncio.get_running_loop().call_soon(self._take)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send; before keys are agreed on nothing can be said."""
        if not self._is_agreed or self.is_closing():
            return
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]
        self._send()

    def close(self) -> None:
        """Say that nothing follows, and end when all has left."""
        if self._is_agreed and not self.is_closing():
            with suppress(ssl.SSLError):
                self._tls.unwrap()  # it does not wait for the other's end
            self._send()
        self._below.close()

    def abort(self) -> None:
        """End at once, whatever is on its way."""
        self._below.abort()

    def _take(self) -> None:
        try:
            if not self._is_agreed:
                self._agree()
            while self._is_agreed and not (self._is_paused or self.is_closing()):
                piece = self._tls.read(_READ_BYTES)
                if not piece:
                    self.close()
                    return
                self._above.data_received(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:  # strangers' bytes are no news
            self._send()
            self._below.close()
            return
        self._send()

    def _agree(self) -> None:
        self._tls.do_handshake()
        if other_suite(self._tls, self._server.suites_of_1_3) is not None:
            self._below.abort()
            return
        self._is_agreed = True

    def _send(self) -> None:
        if self._to_send.pending and not self.is_closing():
            self._below.write(self._to_send.read())
