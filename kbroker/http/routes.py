"""The table of routes: from a path to the function that answers it, under the rules of a `Guard`.

An ASGI application, so that any server of those can run it. Runs on the HTTP thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qs

from kbroker.http.guard import Guard, Headers, Refusal

_log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
_METHODS = ("GET", "HEAD")
_BODY = "http.response.body"
_NOT_FOUND = 404
_MOST_FIELDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that was let in; `is_known`: it has the token, or none is asked for."""

    path: str
    query: Mapping[str, list[str]]
    headers: Headers
    is_known: bool


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The function that answers a path; `is_open`: it also answers those without the token."""

    answer: Callable[[Request], Awaitable[Answer]]
    is_open: bool = False
    methods: tuple[str, ...] = _METHODS


def said(status: int, sentence: str, *headers: tuple[str, str]) -> Answer:
    """An answer of one line of text."""
    return Answer(status=status, body=f"{sentence}\n".encode(), headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTable:
    """The ASGI application: routes by path, each asked with GET, most with HEAD too."""

    routes: Mapping[str, Route]
    guard: Guard = field(default_factory=Guard)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        try:
            answer = await self._answer(scope)
        except Exception:
            _log.exception("cannot answer %s", ascii(scope["path"]))
            answer = said(500, "internal error: the log of the broker has it")
        if answer.pieces is None:
            await send(_start(answer, ("content-length", str(len(answer.body)))))
            await send({"type": _BODY, "body": answer.body})
            return
        async with aclosing(answer.pieces) as pieces:
            await send(_start(answer))
            await _send_pieces(pieces, receive, send)

    async def _answer(self, scope: MutableMapping[str, Any]) -> Answer:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        refusal = self.guard.refusal(headers)
        if refusal is not None:
            return said(refusal.status, refusal.reason)
        is_known = self.guard.knows(headers)
        route = self.routes.get(scope["path"])
        if not is_known and (route is None or not route.is_open):
            return said(
                401, "the token is missing or wrong", ("www-authenticate", 'Basic realm="kbroker"')
            )
        if route is None:
            return said(_NOT_FOUND, "not found: / lists what there is")
        if scope["method"] not in route.methods:
            only = " and ".join(route.methods)
            return said(405, f"only {only}", ("allow", ", ".join(route.methods)))
        query = _query(scope["query_string"])
        if isinstance(query, Refusal):
            return said(query.status, query.reason)
        return await route.answer(
            Request(path=scope["path"], query=query, headers=headers, is_known=is_known)
        )


def _start(answer: Answer, *more: tuple[str, str]) -> MutableMapping[str, Any]:
    headers = [("content-type", answer.content_type), *more, *answer.headers]
    return {
        "type": "http.response.start",
        "status": answer.status,
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }


async def _send_pieces(pieces: Pieces, receive: Receive, send: Send) -> None:
    """Send a body piece by piece: the next one is asked for when the last has left."""
    gone = asyncio.ensure_future(_until_gone(receive))
    try:
        async for piece in pieces:
            if gone.done():
                return
            if piece:
                await send({"type": _BODY, "body": piece, "more_body": True})
        await send({"type": _BODY, "body": b""})
    finally:
        gone.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _query(text: bytes) -> Mapping[str, list[str]] | Refusal:
    try:
        return parse_qs(text.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        return Refusal(status=400, reason="the query cannot be read")
