"""`/api/trace`: the requests of a broker's clients as they are answered, a line of JSON each.

Law: a reader costs the broker a bounded number of entries, and while nobody reads nothing. One that
does not keep up misses the oldest; a line says how many.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from kbroker.apis.request_tracer import RequestTracer, TooManyReadersError
from kbroker.http.answers import Answer, said
from kbroker.http.broker_loop import BrokerLoop
from kbroker.http.rights import NotAllowedError, Rights
from kbroker.http.routes import Request, Route
from kbroker.http.trace_query import trace_filter_of
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
            wanted = trace_filter_of(request.query)
        except ValueError as error:
            return said(400, str(error))
        followed = FollowedOnLoop(loop, tracer, wanted, request.rights)
        problem = await followed.begin()
        if problem is not None:
            followed.close()
            return said(503, problem)
        return Answer(pieces=_Entries(followed), content_type=JSON_LINES)

    return {PATH: Route(answer=trace, methods=("GET",))}


class FollowedOnLoop:
    """The entries of one reader, taken from the HTTP thread."""

    def __init__(
        self,
        loop: BrokerLoop,
        tracer: FindTracer,
        wanted: TraceFilter,
        rights: Rights | None = None,
    ) -> None:
        self._loop = loop
        self._rights = rights
        self._tracer = tracer
        self._reader = TraceReader(wanted)

    async def begin(self) -> str | None:
        """Have entries made from now on, or say why there are none. Raises NotAllowedError."""

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

    async def take(self) -> Taken:
        """Return what has come since the last look; nothing if the broker's loop is held. Raises
        NotAllowedError once the user may follow no more.
        """
        try:
            taken: Taken = await self._on_broker(self._reader.take)
        except TimeoutError:  # if it has stopped, this address goes soon
            return Taken(0, ())
        return taken

    def close(self) -> None:
        """Let the broker go on unseen, if it ever heard of this reader."""
        self._loop.call_soon(partial(_close, self._tracer, self._reader))

    async def _on_broker(self, look: Callable[[], Any]) -> Any:
        def steps() -> Iterator[Any]:
            if self._rights is not None:
                self._rights.check_here()
            yield look()

        return (await self._loop.collect(steps, ANSWER_S))[0]


class _Entries:
    """The entries of one reader, as pieces of an answer."""

    def __init__(self, followed: FollowedOnLoop) -> None:
        self._followed = followed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with suppress(NotAllowedError):  # taken back: the answer ends
            while True:
                yield _lines(await self._followed.take())
                await asyncio.sleep(LOOK_S)

    async def aclose(self) -> None:
        self._followed.close()


def _close(find: FindTracer, reader: TraceReader) -> None:
    tracer = find()
    if tracer is not None:
        tracer.close(reader)


def _lines(taken: Taken) -> bytes:
    values: list[Any] = [{MISSED: taken.missed}] if taken.missed else []
    values += (entry.value() for entry in taken.entries)
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)
