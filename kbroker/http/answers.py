"""Answers over HTTP as values, and how they are sent: whole, or piece by piece.

Runs on the loop of a web server. What no part of a broker is needed for, so that a console that is
not a broker's has the same.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Protocol

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
_BODY = "http.response.body"
_JSON_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))


class Application(Protocol):
    """An ASGI application that holds something until it is closed."""

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None: ...

    def close(self) -> None:
        """Let go of what it holds; it is not called any more."""
        ...


class Pieces(Protocol):
    """A body that comes in pieces, until there are no more or its reader has gone. An empty piece
    is not sent: it lets a reader be found to have gone.
    """

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None:
        """Free what the pieces are made of, whether there were any or not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer with a whole body, in bytes, or one that comes in pieces."""

    status: int = 200
    body: bytes = b""
    pieces: Pieces | None = None
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


def said(status: int, sentence: str, *headers: tuple[str, str]) -> Answer:
    """An answer of one line of text."""
    return Answer(status=status, body=f"{sentence}\n".encode(), headers=headers)


def json_bytes(value: object) -> bytes:
    """Return a value as JSON, without spaces. It is made piece by piece: json.dumps makes all of it
    in one call, for which every thread of the process waits, also the one of a broker's loop.
    """
    return b"".join(piece.encode() for piece in _JSON_ENCODER.iterencode(value))


def headers_of(scope: MutableMapping[str, Any]) -> dict[str, str]:
    """The headers of a request by name in lower case; of one that was sent twice, the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def send_answer(answer: Answer, receive: Receive, send: Send) -> None:
    """Send an answer; one in pieces for as long as its reader takes them."""
    if answer.pieces is None:
        await send(_start(answer, ("content-length", str(len(answer.body)))))
        await send({"type": _BODY, "body": answer.body})
        return
    async with aclosing(answer.pieces) as pieces:
        await send(_start(answer))
        await _send_pieces(pieces, receive, send)


async def until_gone(receive: Receive) -> None:
    """Return when the client has gone; what it still sends is dropped."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _start(answer: Answer, *more: tuple[str, str]) -> MutableMapping[str, Any]:
    headers = [("content-type", answer.content_type), *more, *answer.headers]
    return {
        "type": "http.response.start",
        "status": answer.status,
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }


async def _send_pieces(pieces: Pieces, receive: Receive, send: Send) -> None:
    """Send a body piece by piece: the next one is asked for when the last has left."""
    gone = asyncio.ensure_future(until_gone(receive))
    try:
        async for piece in pieces:
            if gone.done():
                return
            if piece:
                await send({"type": _BODY, "body": piece, "more_body": True})
        await send({"type": _BODY, "body": b""})
    finally:
        gone.cancel()
