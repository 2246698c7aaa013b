"""`/api/trace`: the requests of a broker's clients as they are answered, a line of JSON each.

Law: a reader costs the broker a bounded number of entries, and while nobody reads nothing. One that
does not keep up misses the oldest; a line says how many.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, Final

from kbroker.apis.request_tracer import RequestTracer, TooManyReadersError
from kbroker.http.answers import Answer, said
from kbroker.http.broker_loop import BrokerLoop
from kbroker.http.routes import Request, Route
from kbroker.tracing.trace_filter import PATH, TraceFilter
from kbroker.tracing.trace_reader import MISSED, Taken, TraceReader

JSON_LINES: Final = "application/jsonl"
LOOK_S: Final = 0.1  # between two looks for entries
ANSWER_S: Final = 5.0  # how long the broker's loop may take to answer

FindTracer = Callable[[], RequestTracer | None]
"""Returns the tracer of a broker, on its loop; None while it starts."""


def trace_routes(loop: BrokerLoop, tracer: FindTracer) -> dict[str, Route]:
    """The route of the requests of one broker, by path."""

    async def trace(request: Request) -> Answer:
        try:
            wanted = TraceFilter.of(request.query)
        except ValueError as error:
            return said(400, str(error))
        entries = _Entries(loop, tracer, TraceReader(wanted))
        problem = await entries.begin()
        if problem is not None:
            await entries.aclose()
            return said(503, problem)
        return Answer(pieces=entries, content_type=JSON_LINES)

    return {PATH: Route(answer=trace, methods=("GET",))}


class _Entries:
    """The entries of one reader, as pieces of an answer."""

    def __init__(self, loop: BrokerLoop, tracer: FindTracer, reader: TraceReader) -> None:
        self._loop = loop
        self._tracer = tracer
        self._reader = reader

    async def begin(self) -> str | None:
        """Have entries made from now on, or say why there are none."""

        def begin() -> bool:
            tracer = self._tracer()
            if tracer is not None:
                tracer.open(self._reader)
            return tracer is not None

        try:
            has_begun = await self._on_broker(begin)
        except TooManyReadersError as error:
            return str(error)
        except TimeoutError:
            return "the event loop of the broker does not answer"
        return None if has_begun else "the broker is starting"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            try:
                taken = await self._on_broker(self._reader.take)
            except TimeoutError:  # it is held; if it has stopped, this connection ends soon
                taken = Taken(0, ())
            yield _lines(taken)
            await asyncio.sleep(LOOK_S)

    async def aclose(self) -> None:
        """Let the broker go on unseen, if it ever heard of this reader."""
        self._loop.call_soon(partial(_close, self._tracer, self._reader))

    async def _on_broker(self, look: Callable[[], Any]) -> Any:
        def steps() -> Iterator[Any]:
            yield look()

        return (await self._loop.collect(steps, ANSWER_S))[0]


def _close(find: FindTracer, reader: TraceReader) -> None:
    tracer = find()
    if tracer is not None:
        tracer.close(reader)


def _lines(taken: Taken) -> bytes:
    values: list[Any] = [{MISSED: taken.missed}] if taken.missed else []
    values += (entry.value() for entry in taken.entries)
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)
