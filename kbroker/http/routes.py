"""The table of routes: from a path to the function that answers it, under the rules of a `Guard`,
and for the users of a broker that has any.

An ASGI application, so that any server of those can run it. Runs on the HTTP thread.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

from kbroker.http.answers import Answer, Application, Receive, Send, headers_of, said, send_answer
from kbroker.http.guard import Guard, Headers, Refusal
from kbroker.http.rights import NotAllowedError, Rights

if TYPE_CHECKING:  # few brokers have users
    from kbroker.http.users import Users

_log = logging.getLogger(__name__)

_METHODS = ("GET", "HEAD")
_NOT_FOUND = 404
_MOST_FIELDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that was let in, with the rights of its user. `is_known`: it has the token, or its
    user may see what this broker knows, or neither is asked for.
    """

    path: str
    query: Mapping[str, list[str]]
    headers: Headers
    is_known: bool
    rights: Rights | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The function that answers a path; `is_open`: it also answers those who are not known;
    `is_for_users`: all users, whatever they may see.
    """

    answer: Callable[[Request], Awaitable[Answer]]
    is_open: bool = False
    is_for_users: bool = False
    methods: tuple[str, ...] = _METHODS


MakeRoutes = Callable[[], Mapping[str, Route]]
"""Makes routes by path, and loads what they need."""


def _unbounded(receive: Receive) -> Receive:
    return receive


class Visitor(NamedTuple):
    """Somebody who asks: whether it is known who, the pages beside the routes, until when the
    answer may take, and the rights of a user; None: whoever is known may see all.
    """

    is_known: bool
    pages: Application | None = None
    bounded: Callable[[Receive], Receive] = _unbounded
    rights: Rights | None = None


_STRANGER = Visitor(is_known=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTable:
    """The ASGI application: routes by path, each asked with GET, most with HEAD too; those that are
    `made_later` with the first request that is let in. `otherwise` is another one, which answers
    what has no route here, to those who have the token. With `users`, the pages of a user's session
    do that, and the token is for the routes alone.
    """

    routes: dict[str, Route]
    made_later: Mapping[str, MakeRoutes] = field(default_factory=dict)
    guard: Guard = field(default_factory=Guard)
    otherwise: Application | None = None
    users: Users | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        headers = headers_of(scope)
        visitor = _STRANGER
        try:
            found = await self._visitor(scope, headers, receive)
            if isinstance(found, Visitor):
                visitor = found
                receive = visitor.bounded(receive)
                answer = await self._answer(scope, headers, visitor)
            else:
                answer = found
        except Exception:
            _log.exception("cannot answer %s", ascii(scope["path"]))
            answer = said(500, "internal error: the log of the broker has it")
        if answer is not None:
            await send_answer(answer, receive, send)
        elif visitor.pages is not None:
            await visitor.pages(scope, receive, send)

    def close(self) -> None:
        """Let go of what other applications hold; nothing is answered any more."""
        if self.otherwise is not None:
            self.otherwise.close()
        if self.users is not None:
            self.users.close()

    async def _visitor(
        self, scope: MutableMapping[str, Any], headers: Headers, receive: Receive
    ) -> Visitor | Answer:
        """Return who asks, or a refusal; what logs in and out is answered here too."""
        refusal = self.guard.refusal(headers)
        if refusal is not None:
            return said(refusal.status, refusal.reason)
        users = self.users
        answer = None if users is None else await users.answer(scope, headers, receive)
        if answer is not None:
            return answer
        if users is None or self.guard.knows(headers):
            return Visitor(self.guard.knows(headers), self.otherwise)
        found = await users.find(scope, headers)
        if isinstance(found, Answer):
            return found
        if found is None:
            return _STRANGER
        rights = users.rights(found.principal, scope["client"][0])
        return Visitor(True, found.pages, found.bounded, rights)

    async def _answer(
        self, scope: MutableMapping[str, Any], headers: Headers, visitor: Visitor
    ) -> Answer | None:
        """Return the answer, None if the visitor's pages have it."""
        route = self.routes.get(scope["path"])
        if not visitor.is_known and (route is None or not route.is_open):
            return self._to_stranger(scope, headers)
        if route is None and scope["path"] in self.made_later:
            self.routes.update(self.made_later[scope["path"]]())
            route = self.routes[scope["path"]]
        if route is None and visitor.pages is not None:
            return None
        if route is None and self.users is not None:
            return self.users.ask(scope, headers, "log in as a user: the token is not for this")
        if route is None:
            return said(_NOT_FOUND, "not found: / lists what there is")
        if scope["method"] not in route.methods:
            only = " and ".join(route.methods)
            return said(405, f"only {only}", ("allow", ", ".join(route.methods)))
        query = _query(scope["query_string"])
        if isinstance(query, Refusal):
            return said(query.status, query.reason)
        refusal = None if route.is_for_users else await _refusal(visitor.rights)
        if refusal is not None and not route.is_open:
            return refusal
        return await route.answer(
            Request(
                path=scope["path"],
                query=query,
                headers=headers,
                is_known=visitor.is_known and refusal is None,
                rights=visitor.rights,
            )
        )

    def _to_stranger(self, scope: MutableMapping[str, Any], headers: Headers) -> Answer:
        if self.users is not None:
            return self.users.ask(scope, headers, "log in as a user of this broker")
        return said(
            401, "the token is missing or wrong", ("www-authenticate", 'Basic realm="kbroker"')
        )


async def _refusal(rights: Rights | None) -> Answer | None:
    if rights is None:
        return None
    try:
        await rights.check()
    except NotAllowedError as error:
        return said(403, str(error))
    except TimeoutError:
        return said(503, "the broker's event loop does not say what a user may see")
    return None


def _query(text: bytes) -> Mapping[str, list[str]] | Refusal:
    try:
        return parse_qs(text.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        return Refusal(status=400, reason="the query cannot be read")
