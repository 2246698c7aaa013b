"""The table of routes: from a path to the function that answers it, under the rules of a `Guard`.

An ASGI application, so that any server of those can run it. Runs on the HTTP thread.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from kbroker.http.answers import Answer, Application, Receive, Send, headers_of, said, send_answer
from kbroker.http.guard import Guard, Headers, Refusal

_log = logging.getLogger(__name__)

_METHODS = ("GET", "HEAD")
_NOT_FOUND = 404
_MOST_FIELDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that was let in; `is_known`: it has the token, or none is asked for."""

    path: str
    query: Mapping[str, list[str]]
    headers: Headers
    is_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The function that answers a path; `is_open`: it also answers those without the token."""

    answer: Callable[[Request], Awaitable[Answer]]
    is_open: bool = False
    methods: tuple[str, ...] = _METHODS


MakeRoutes = Callable[[], Mapping[str, Route]]
"""Makes routes by path, and loads what they need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTable:
    """The ASGI application: routes by path, each asked with GET, most with HEAD too; those that are
    `made_later` with the first request that is let in. `otherwise` is another one, which answers
    what has no route here, to those who have the token.
    """

    routes: dict[str, Route]
    made_later: Mapping[str, MakeRoutes] = field(default_factory=dict)
    guard: Guard = field(default_factory=Guard)
    otherwise: Application | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        try:
            answer = await self._answer(scope)
        except Exception:
            _log.exception("cannot answer %s", ascii(scope["path"]))
            answer = said(500, "internal error: the log of the broker has it")
        if answer is not None:
            await send_answer(answer, receive, send)
        elif self.otherwise is not None:
            await self.otherwise(scope, receive, send)

    def close(self) -> None:
        """Let go of what the other application holds; nothing is answered any more."""
        if self.otherwise is not None:
            self.otherwise.close()

    async def _answer(self, scope: MutableMapping[str, Any]) -> Answer | None:
        """Return the answer, None if the other application has it."""
        headers = headers_of(scope)
        refusal = self.guard.refusal(headers)
        if refusal is not None:
            return said(refusal.status, refusal.reason)
        is_known = self.guard.knows(headers)
        route = self.routes.get(scope["path"])
        if not is_known and (route is None or not route.is_open):
            return said(
                401, "the token is missing or wrong", ("www-authenticate", 'Basic realm="kbroker"')
            )
        if route is None and scope["path"] in self.made_later:
            self.routes.update(self.made_later[scope["path"]]())
            route = self.routes[scope["path"]]
        if route is None and self.otherwise is not None:
            return None
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


def _query(text: bytes) -> Mapping[str, list[str]] | Refusal:
    try:
        return parse_qs(text.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        return Refusal(status=400, reason="the query cannot be read")
