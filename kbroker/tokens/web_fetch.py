"""Fetches a small answer from a file or a web server, on a thread that may wait for it.

Law: it ends, within its time limit and size, whatever the other side does. No redirection is
followed, so that what was asked over TLS is answered over TLS, by the server that was named.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from kbroker.small_files import read_small_file

if TYPE_CHECKING:
    from ssl import SSLContext

BYTES_MAX = 1024 * 1024
OK = 200
_WAIT_S, _TOTAL_S = 10.0, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPlace:
    """An address (`file:`, `https:`, `http:`), how it is trusted, and time limits in seconds."""

    url: str
    tls: SSLContext | None = field(default=None, repr=False)  # None: as the system trusts
    connect_s: float = _WAIT_S
    read_s: float = _WAIT_S  # until something more comes
    total_s: float = _TOTAL_S

    @classmethod
    def of(
        cls, url: str, tls: SSLContext | None, connect_ms: int | None, read_ms: int | None
    ) -> WebPlace:
        """Return the place for time limits in milliseconds, None for the usual ones."""
        return cls(
            url=url,
            tls=tls,
            connect_s=connect_ms / 1000 if connect_ms else _WAIT_S,
            read_s=read_ms / 1000 if read_ms else _WAIT_S,
        )

    @property
    def is_file(self) -> bool:
        return urlsplit(self.url).scheme == "file"


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """The status of HTTP, 200 for a file, and what came with it."""

    status: int
    content: bytes = field(repr=False)


def fetch(
    place: WebPlace, form: bytes | None = None, headers: Mapping[str, str] | None = None
) -> WebAnswer:
    """Fetch what is there, or post a form there. Raises OSError with a sentence."""
    parts = urlsplit(place.url)
    if parts.scheme == "file":
        return WebAnswer(OK, read_small_file(url2pathname(parts.path), BYTES_MAX))
    connection = _connection(place)
    guard = None
    is_late = threading.Event()
    end_s = time.monotonic() + place.total_s
    try:
        connection.connect()  # TLS has its own time limit
        plain = connection.sock
        plain.settimeout(place.read_s)
        # Not the socket's own method: that of TLS would go on without TLS.
        guard = threading.Timer(max(0.0, end_s - time.monotonic()), _cut, [plain, is_late])
        guard.daemon = True
        guard.start()
        target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        connection.request("GET" if form is None else "POST", target, form, dict(headers or {}))
        answer = connection.getresponse()
        content = answer.read(BYTES_MAX + 1)
        if is_late.is_set():
            raise TimeoutError(f"its answer is not whole after {place.total_s:g} s")
        if len(content) > BYTES_MAX:
            raise OSError(f"it answers with more than {BYTES_MAX:,} bytes")
        return WebAnswer(answer.status, content)
    except HTTPException as error:
        raise OSError(f"it does not answer by HTTP as it should ({type(error).__name__})") from None
    finally:
        if guard is not None:
            guard.cancel()
        connection.close()


def _connection(place: WebPlace) -> HTTPConnection:
    parts = urlsplit(place.url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        return HTTPSConnection(host, parts.port, timeout=place.connect_s, context=place.tls)
    return HTTPConnection(host, parts.port, timeout=place.connect_s)


def _cut(plain: socket.socket, is_late: threading.Event) -> None:
    is_late.set()
    with suppress(OSError):  # it has ended by itself
        socket.socket.shutdown(plain, socket.SHUT_RDWR)
