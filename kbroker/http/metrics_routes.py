"""`/metrics`: the page of a broker's metrics, for Prometheus.

Values are collected on the broker's loop in slices, and formatted here, with rests in between: this
thread shares the interpreter with the broker's.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

from kbroker.counters import Sample
from kbroker.http.answers import Answer, said
from kbroker.http.broker_loop import BrokerLoop
from kbroker.http.routes import Request, Route
from kbroker.metrics.confluent_dialect import confluent_dialect
from kbroker.metrics.dialect import Dialect
from kbroker.metrics.jmx_dialect import jmx_dialect
from kbroker.metrics.page import OPEN_METRICS, TEXT, Format, Page
from kbroker.metrics.redpanda_dialect import redpanda_dialect
from kbroker.metrics.selection import Selection
from kbroker.rare_collections import collecting_nothing

DIALECTS: Final[Mapping[str, Dialect]] = {
    "kafka": jmx_dialect,
    "confluent": confluent_dialect,
    "redpanda": redpanda_dialect,
}
PREPARED_S: Final = 1.0
COLLECTED_S: Final = 8.0  # Prometheus gives up after 10 s
_FIELDS = ("dialect", "topic")
_ROWS = 250  # that are formatted without a rest: a millisecond
_REST_S = 0.001
_PACKED_AT_ONCE = 100_000  # characters, in a millisecond; most families are far smaller
_GZIP = 31  # bits of the window, with gzip's head
_LEVEL = 1  # a fifth of the size for a fifth of the time

LookAtMetrics = Callable[[], Iterator[Sample | None]]
"""Walks through the samples of a broker, on its loop; None is a step without one."""
Prepare = Callable[[], Awaitable[None]]
"""Learns what others know, before the samples are taken."""


def metrics_routes(
    loop: BrokerLoop, samples: LookAtMetrics, prepare: Prepare, partitions: int
) -> dict[str, Route]:
    """The routes of a broker's metrics, by path; `partitions` is the most that a page shows."""
    turn = asyncio.Lock()  # two pages at once take no longer, and half the memory

    async def metrics(request: Request) -> Answer:
        refusal = _refusal(request)
        if refusal is not None:
            return said(400, refusal)
        dialect = DIALECTS[request.query.get("dialect", ["kafka"])[0]]
        selection = Selection(request.query.get("topic", []), partitions)
        page_format = _format(request)
        async with turn:
            with suppress(TimeoutError):  # what others have not said in time is left out
                await loop.run(prepare, PREPARED_S)
            with collecting_nothing():
                try:
                    found = await loop.collect(samples, COLLECTED_S)
                except TimeoutError:
                    reason = f"the broker's event loop has not answered for {COLLECTED_S:g} s"
                    return said(503, reason)
                page = Page(dialect, page_format)
                rows = selection.of(found)
                page.add(islice(rows, _ROWS))
                while some := list(islice(rows, _ROWS)):
                    await asyncio.sleep(_REST_S)
                    page.add(some)
                del found
                return await _answer(page, page_format, is_packed=_takes_gzip(request))

    return {"/metrics": Route(answer=metrics)}


async def _answer(page: Page, page_format: Format, *, is_packed: bool) -> Answer:
    if not is_packed:
        body = "".join(page.parts()).encode()
        return Answer(body=body, content_type=page_format.content_type)
    packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
    pieces, since = [], 0
    for part in page.parts():
        pieces.append(packer.compress(part.encode()))
        since += len(part)
        if since > _PACKED_AT_ONCE:
            since = 0
            await asyncio.sleep(0)
    pieces.append(packer.flush())
    headers = (("content-encoding", "gzip"), ("vary", "accept-encoding"))
    return Answer(body=b"".join(pieces), content_type=page_format.content_type, headers=headers)


def _refusal(request: Request) -> str | None:
    """Why this cannot be answered, None if it can."""
    for field in request.query:
        if field not in _FIELDS:
            return f"no such field: {field!a}; there are {', '.join(_FIELDS)}"
    dialects = request.query.get("dialect", ["kafka"])
    if len(dialects) > 1 or dialects[0] not in DIALECTS:
        return f"no such dialect: {dialects[0]!a}; there are {', '.join(DIALECTS)}"
    return None


def _format(request: Request) -> Format:
    accepted = request.headers.get("accept", "")
    return OPEN_METRICS if "application/openmetrics-text" in accepted else TEXT


def _takes_gzip(request: Request) -> bool:
    for coding in request.headers.get("accept-encoding", "").split(","):
        name, _, rest = coding.partition(";")
        if name.strip() in ("gzip", "*"):
            return rest.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
