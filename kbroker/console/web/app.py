"""The console as an ASGI application: finds the route of a request, lets in what may be done, and
turns errors into pages or JSON.

Law: what changes something comes as a form or as JSON that a page of this console, or no page, has
sent, and is refused in a console that is read-only. Who lets requests in at all is the `Guard` of
the HTTP address. When a client has gone, what it has asked for is given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, MutableMapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from kbroker.client.client_error import EndingError
from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.console.web.api.answers import api_error
from kbroker.console.web.console import Console, ConsoleOptions
from kbroker.console.web.large_answers import LargeAnswers
from kbroker.console.web.page import error_page, status_of
from kbroker.console.web.routes import API_PATH, ScreenRoutes, WebRoute
from kbroker.console.web.screens import SCREENS
from kbroker.console.web.views import BrokerViews
from kbroker.console.web.web_request import (
    Bodies,
    RefusedError,
    WebRequest,
    fields_of,
    request_of,
)
from kbroker.errors import KafkaError
from kbroker.http.answers import Answer, Receive, Send, send_answer, until_gone
from kbroker.protocol.primitives import MAX_STRING_BYTES

_log = logging.getLogger(__name__)

CLIENT_ID: Final = "kbroker-console"
_FORM: Final = "application/x-www-form-urlencoded"
_JSON: Final = "application/json"
_OWN_SITES: Final = ("same-origin", "none", "")

T = TypeVar("T")


class ConsoleApplication:
    """The console of one cluster. Made, asked and closed on the loop of the web server."""

    def __init__(
        self,
        cluster: ConsoledCluster,
        options: ConsoleOptions | None = None,
        views: BrokerViews | None = None,
        user: str | None = None,
    ) -> None:
        """`user` is the name of who has logged in, where that is asked for."""
        self._console = Console(
            cluster=cluster,
            options=options or ConsoleOptions(),
            views=views,
            user=user,
            navigation=tuple(screen.entry for screen in SCREENS if screen.entry is not None),
        )
        self._routes = ScreenRoutes(SCREENS)
        self._bodies = Bodies()
        self._large = LargeAnswers()

    def close(self) -> None:
        """Give up what is at work, and close the links to the cluster."""
        self._console.follows.close()
        self._console.sampling.close()
        self._console.cluster.close()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, or give it up as its client goes."""
        answer = await self._answer(scope, receive)
        if answer is not None:
            await send_answer(answer, receive, send)

    async def _answer(self, scope: MutableMapping[str, Any], receive: Receive) -> Answer | None:
        """Return the answer, None if the client has gone before there was one."""
        request = WebRequest(method="GET", path="", query=fields_of(b""), headers={})
        try:
            request = request_of(scope)
            route, places = self._found(request)
            self._check(route, request)
            body = await self._bodies.read(request.headers, receive)
            form = fields_of(body) if _media_type(request) == _FORM else fields_of(b"")
            request = replace(request, places=places, form=form, body=body)
            answer = await _while_there(route.respond(self._console, request), receive)
            return None if answer is None else self._large.in_pieces(answer)
        except RefusedError as error:
            return self._failed(request, error.status, error.sentence)
        except EndingError as error:
            status = status_of(error)
            # A cluster that is away comes back, and so may a group or topic that has gone.
            return self._failed(request, status, error.sentence, is_passing=status in (404, 503))
        except KafkaError as error:
            return self._failed(request, 409, str(error), is_passing=error.code.retriable)
        except Exception:
            _log.exception("cannot answer %s", ascii(request.path))
            return self._failed(request, 500, "internal error: the log has it")

    def _found(self, request: WebRequest) -> tuple[WebRoute, dict[str, str]]:
        found = self._routes.find(request.path)
        if found is None and _is_of_api(request):
            raise RefusedError(404, f"no such path: {API_PATH}/openapi.json lists what there is")
        if found is None:
            raise RefusedError(404, "there is no such page")
        route = found.methods.get(request.method)
        if route is None:
            raise RefusedError(405, f"only {' and '.join(sorted(found.methods))}")
        for name, text in found.places.items():
            if len(text.encode("utf-8", "replace")) > MAX_STRING_BYTES:
                raise RefusedError(404, f"no {name} has so long a name")
        return route, dict(found.places)

    def _check(self, route: WebRoute, request: WebRequest) -> None:
        """Raise RefusedError for what may not be done."""
        options = self._console.options
        if route.shows_messages and options.no_messages:
            raise RefusedError(403, "this console shows no content of messages (--no-messages)")
        is_change = route.method != "GET"
        if options.read_only and (is_change or route.asks_for_change):
            raise RefusedError(403, "this console changes nothing (--read-only)")
        if not is_change:
            return
        if request.headers.get("sec-fetch-site", "") not in _OWN_SITES:
            raise RefusedError(403, "refused: the request comes from a page elsewhere")
        expected = _JSON if _is_of_api(request) else _FORM
        if route.method == "POST" and _media_type(request) != expected:
            raise RefusedError(415, f"the content type is {expected}")

    def _failed(
        self, request: WebRequest, status: int, sentence: str, *, is_passing: bool = False
    ) -> Answer:
        if _is_of_api(request):
            return api_error(status, sentence)
        is_passing = is_passing and request.method == "GET"
        return error_page(self._console, request, status, sentence, is_passing=is_passing)


async def _while_there(answer: Coroutine[Any, Any, T], receive: Receive) -> T | None:
    """Return the answer, or give it up and return None as soon as its client has gone."""
    work = asyncio.ensure_future(answer)
    gone = asyncio.ensure_future(until_gone(receive))
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        return None
    finally:
        for each in (work, gone):
            each.cancel()
        await asyncio.gather(work, gone, return_exceptions=True)


def _media_type(request: WebRequest) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _is_of_api(request: WebRequest) -> bool:
    return request.path == API_PATH or request.path.startswith(f"{API_PATH}/")
