"""`/api/connections`: who is connected to a broker, and how long ago they asked for something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from kbroker.http.answers import JSON, Answer, json_bytes, said
from kbroker.http.broker_loop import BrokerLoop
from kbroker.http.routes import Request, Route

if TYPE_CHECKING:
    from kbroker.tracing.open_connection import OpenConnection

ANSWER_S: Final = 5.0  # how long the broker's loop may take to answer
PATH: Final = "/api/connections"
MOST_ROWS: Final = 10_000

LookAtConnections = Callable[[], "Iterator[OpenConnection]"]
"""Yields the open connections; called on the broker's loop."""


def connection_routes(loop: BrokerLoop, look: LookAtConnections) -> dict[str, Route]:
    """The route of the connections of one broker, by path."""

    async def connections(request: Request) -> Answer:
        if request.query:
            return said(400, f"no such field: {sorted(request.query)[0]!a}; there is none")
        try:
            found = await loop.collect(look, ANSWER_S)
        except TimeoutError:
            return said(503, f"the broker's event loop has not answered for {ANSWER_S:g} s")
        rows = [each.value() for each in found[:MOST_ROWS]]
        value = {"connections": rows, "left_out": len(found) - len(rows)}
        return Answer(body=json_bytes(value) + b"\n", content_type=JSON)

    return {PATH: Route(answer=connections)}
