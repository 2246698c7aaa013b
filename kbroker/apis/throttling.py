"""Answers under clients' quotas, and for how long their connections are muted."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from time import perf_counter_ns
from typing import Any, Generic, TypeVar

from kbroker.apis.client_quotas import percent_of_loop
from kbroker.apis.context import RequestContext
from kbroker.apis.served_api import Served
from kbroker.protocol.part_encoder import encode_runs
from kbroker.protocol.request import Piece, Request, Response
from kbroker.protocol.schema import Message

T = TypeVar("T")


def throttle_ms(
    served: Served, request: Request, ctx: RequestContext, *, is_answered: bool = True
) -> int:
    """Count a request against the client's quotas; returns for how many milliseconds its connection
    is muted. A client is throttled by the broker that it asked, and as with Kafka, the time of a
    producer that wants no answer is its own.
    """
    connection, quotas = request.connection, served.quotas
    if quotas is None or connection.is_forwarded:
        return 0
    now_ms = served.services.clock.monotonic_ms()
    account = quotas.account(connection.principal, request.header.client_id, now_ms)
    delay_ms = 0
    if served.is_produce and account.produce is not None:
        delay_ms = account.produce.use(request.size_bytes, now_ms)
    if is_answered and account.request is not None:
        used = percent_of_loop(ctx.used_ns())
        delay_ms = max(delay_ms, account.request.use(used, now_ms))
    return delay_ms


def throttled(
    served: Served,
    request: Request,
    response: Any,
    pieces: list[Piece],
    message: Message | None,
    ctx: RequestContext,
) -> Response:
    """Return the answer, which says for how long its connection is muted: for as long as it says
    already, if a handler or the controller has counted more.
    """
    said_ms: int = getattr(response, "throttle_time_ms", 0)
    if (
        served.quotas is None
        or response.is_counted
        or (served.exempt is not None and message is not None and served.exempt(message))
    ):
        return Response(pieces, said_ms)
    delay_ms = throttle_ms(served, request, ctx)
    if delay_ms <= said_ms:
        return Response(pieces, said_ms)
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = delay_ms
        pieces = encode_runs(
            response, served.version, served.header.pack(request.header.correlation_id)
        )
    return Response(pieces, delay_ms)


class OnLoop(Generic[T]):
    """An awaitable whose waiting does not count as time that its request takes of the loop."""

    __slots__ = ("_awaited", "_ctx")

    def __init__(self, awaited: Awaitable[T], ctx: RequestContext) -> None:
        self._awaited = awaited
        self._ctx = ctx

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._awaited.__await__()
        error: BaseException | None = None
        while True:
            try:
                waits_for = steps.send(None) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            began_ns, error = perf_counter_ns(), None
            try:
                yield waits_for
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as thrown:  # it is for what is awaited
                error = thrown
            finally:
                self._ctx.waited_ns += perf_counter_ns() - began_ns
