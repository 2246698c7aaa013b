"""`/livez` and `/readyz`, and what `/` lists."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kbroker.http.answers import JSON, Answer, said
from kbroker.http.broker_loop import BrokerLoop
from kbroker.http.health import CHECKS, Check, readiness, without_details
from kbroker.http.routes import Request, Route

CONSOLE: Final = "/overview"  # its first page
ANSWER_S: Final = 1.0  # how long the broker's loop may take to answer
_LOOP: Final = "loop"
_SILENT: Final = f"the broker's event loop has not answered for {ANSWER_S:g} s"

LookAtHealth = Callable[[], Iterator[Check | None]]
"""Yields the checks of a broker, on its loop; None after a step without one."""


def health_routes(loop: BrokerLoop, checks: LookAtHealth) -> dict[str, Route]:
    """The routes of a broker's health, by path."""

    async def livez(_: Request) -> Answer:
        try:
            await loop.collect(lambda: iter(()), ANSWER_S)
        except TimeoutError:
            return said(503, _SILENT)
        return said(200, "ok")

    async def readyz(request: Request) -> Answer:
        excluded = request.query.get("exclude", [])
        unknown = [name for name in excluded if name not in CHECKS]
        if unknown:
            return said(400, f"no such check: {unknown[0]!a}; there are {', '.join(CHECKS)}")
        try:
            found = await loop.collect(checks, ANSWER_S)
        except TimeoutError:
            found = [Check(name=_LOOP, problem=_SILENT)]
        is_ready, value = readiness(found, excluded)
        shown = value if request.is_known else without_details(value)
        body = json.dumps(shown, indent=2).encode() + b"\n"
        return Answer(status=200 if is_ready else 503, body=body, content_type=JSON)

    return {
        "/livez": Route(answer=livez, is_open=True, is_for_users=True),
        "/readyz": Route(answer=readyz, is_open=True),
    }


def index_route(described: Mapping[str, str]) -> Route:
    """The route of `/`: what there is, by path, in plain text; a browser goes to the first page of
    the console.
    """
    width = max(map(len, described), default=0)
    lines = [f"{path:<{width}}  {text}" for path, text in described.items()]

    async def index(request: Request) -> Answer:
        if "text/html" in request.headers.get("accept", ""):
            return said(303, f"the console is at {CONSOLE}", ("location", CONSOLE))
        return said(200, "\n".join(lines))

    return Route(answer=index, is_for_users=True)
