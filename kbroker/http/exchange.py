"""One HTTP request and its answer, as an ASGI application sees them.

Law: what a client sends is kept only until the application takes it, and no more of it is read
beyond `KEPT_BYTES`; a piece of an answer is written when the client has taken most of those before
it. When the client has gone, a writer goes on at once, and what it writes is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import unquote

import h11

KEPT_BYTES: Final = 64 * 1024
_PHRASES: Final = {each.value: each.phrase.encode() for each in HTTPStatus}
_HEADERS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"same-origin"),  # with none at all, a form's Origin is null
    (b"cache-control", b"no-store"),
]


class Line(Protocol):
    """The connection of a request, as the request uses it."""

    @property
    def scheme(self) -> str:
        """Either http or https."""
        ...

    @property
    def client(self) -> tuple[str, int]:
        """The address of the other side."""
        ...

    async def until_writable(self) -> None:
        """Return when the client has taken most of what was written, or has gone."""
        ...

    def write(self, *events: Any) -> None:
        """Send some of h11's events."""
        ...

    def read_on(self) -> None:
        """Read more of the request, if there is more."""
        ...

    def stop_reading(self) -> None:
        """Read no more for now."""
        ...

    def answered(self) -> None:
        """The whole answer was written: the next request may begin."""
        ...


class Exchange:
    """A request, from its head on, and its answer. `receive` and `send` are ASGI's."""

    def __init__(self, line: Line, head: Any, *, expects_word: bool) -> None:
        """`head` is h11's Request; with `expects_word` the client waits to be let send a body."""
        path, _, query = head.target.partition(b"?")
        self.scope: MutableMapping[str, Any] = {
            "type": "http",
            "scheme": line.scheme,
            "client": line.client,
            "asgi": {"version": "3.0"},
            "http_version": head.http_version.decode(),
            "method": head.method.decode(),
            "path": unquote(path.decode()),
            "raw_path": path,
            "query_string": query,
            "headers": list(head.headers),
        }
        self.is_begun = self.is_answered = False  # the answer, and all of it
        self._line = line
        self._expects_word = expects_word
        self._body = bytearray()
        self._is_whole = False
        self._is_gone = False
        self._news = asyncio.Event()  # for `receive`

    def take(self, data: bytes) -> None:
        """Keep a part of the body, unless the answer is there already."""
        if self.is_answered:
            return
        self._body += data
        if len(self._body) > KEPT_BYTES:
            self._line.stop_reading()
        self._news.set()

    def take_end(self) -> None:
        """Note that the body is whole."""
        self._is_whole = True
        self._news.set()

    def leave(self) -> None:
        """Note that the client has gone."""
        self._is_gone = True
        self._news.set()

    async def receive(self) -> MutableMapping[str, Any]:
        """Return what has come of the body, or that the client expects nothing more."""
        if self._expects_word and not (self.is_begun or self._is_gone):
            self._expects_word = False
            word = h11.InformationalResponse(status_code=100, headers=[], reason=_PHRASES[100])
            self._line.write(word)
        if not (self._is_gone or self.is_answered):
            self._line.read_on()
            await self._news.wait()
            self._news.clear()
        if self._is_gone or self.is_answered:
            return {"type": "http.disconnect"}
        body = bytes(self._body)
        self._body.clear()
        return {"type": "http.request", "body": body, "more_body": not self._is_whole}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send the head of the answer, or a part of its body."""
        await self._line.until_writable()
        if self._is_gone:
            return
        if message["type"] == "http.response.start":
            self.is_begun = True
            status, headers = message["status"], [*_HEADERS, *message["headers"]]
            self._line.write(
                h11.Response(status_code=status, headers=headers, reason=_PHRASES.get(status, b""))
            )
            return
        body = b"" if self.scope["method"] == "HEAD" else message.get("body", b"")
        self._line.write(h11.Data(data=body))
        if not message.get("more_body", False):
            self.is_answered = True
            self._news.set()
            self._line.write(h11.EndOfMessage())
            self._line.answered()
