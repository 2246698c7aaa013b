"""Operations of the API on clients: who is connected, and who asks for what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kbroker.console.pages import Page, page_of
from kbroker.console.web.api.event_operations import views_of
from kbroker.console.web.api.operation import PAGE_PARAMETERS, Given, Operation, Parameter
from kbroker.console.web.api.topic_operations import wanted_of
from kbroker.console.web.console import Console
from kbroker.console.web.follows import follow_once
from kbroker.console.web.web_request import RefusedError
from kbroker.http.trace_query import trace_filter_of
from kbroker.tracing.open_connection import OpenConnection
from kbroker.tracing.trace_filter import NAMES

_MOST_WAIT_MS = 30_000
_PATTERN = "Pattern with * and ?; of one that is given several times, any."


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """The requests that were answered meanwhile, the oldest first, as `/api/trace` of a broker has
    them; `missed` came too fast to be kept.
    """

    requests: tuple[dict[str, Any], ...]
    missed: int


async def _connections(console: Console, given: Given) -> Page[OpenConnection]:
    found = await views_of(console).connections()
    return page_of(found, wanted_of(given), lambda each: each.text)


async def _requests(console: Console, given: Given) -> Requests:
    views, query = views_of(console), given.query
    wait_ms = query.number("wait_ms", 1_000)
    if wait_ms > _MOST_WAIT_MS:
        raise RefusedError(400, f"wait_ms is at most {_MOST_WAIT_MS:,}")
    wanted = trace_filter_of({name: query.values[name] for name in NAMES if name in query.values})
    follow = await follow_once(views, wanted, wait_ms / 1000)
    found = tuple(dict(entry.value()) for entry in follow.entries)
    return Requests(requests=found, missed=follow.seen - len(found))


OPERATIONS: Final = (
    Operation(
        name="listConnections",
        path="/connections",
        summary="The open connections of this broker, a page at a time.",
        answer=Page[OpenConnection],
        function=_connections,
        parameters=PAGE_PARAMETERS,
    ),
    Operation(
        name="followRequests",
        path="/requests",
        summary="The requests that this broker answers from now on, as soon as there is one.",
        answer=Requests,
        function=_requests,
        parameters=(
            *(Parameter(name=name, summary=_PATTERN) for name in NAMES if "slower" not in name),
            Parameter(name="slower_than_ms", summary="Only those that took longer."),
            Parameter(name="wait_ms", summary="How long to wait at most.", type=int, default=1_000),
        ),
    ),
)
