"""The stage that waits until it is known what a client may use: limits that code of the operator
decides are asked for before the handler begins, as nothing behind it waits for them.

Law: it stands only around handlers of requests that are counted, and only where such code decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Protocol, cast

from kbroker.apis.client_quotas import Quotas
from kbroker.apis.context import RequestContext

Handler = Callable[..., Any]


class AskingQuotas(Quotas, Protocol):
    """Quotas that do not know of every client what holds for it."""

    asks_ahead: ClassVar[bool]
    """True: the mark of such quotas."""

    def ask(self, principal: str, client_id: str | None, /) -> Awaitable[None] | None:
        """Find out what holds for a client; None: it is known."""
        ...


def asks_ahead(quotas: Quotas | None) -> bool:
    """Whether it may not be known yet what a client may use."""
    return bool(getattr(type(quotas), "asks_ahead", False))


def asked_first(
    quotas: Quotas | None, handler: Handler, exempt: Callable[[Any], bool] | None
) -> Handler:
    """The handler, which begins when it is known what its client may use."""
    if not asks_ahead(quotas):
        return handler
    asking = cast(AskingQuotas, quotas)

    def handle(ctx: RequestContext, request: Any) -> Any:
        if exempt is not None and exempt(request):
            return handler(ctx, request)
        asked = asking.ask(ctx.connection.principal, ctx.client_id)
        return handler(ctx, request) if asked is None else _later(asked, handler, ctx, request)

    return handle


async def _later(
    asked: Awaitable[None], handler: Handler, ctx: RequestContext, request: Any
) -> Any:
    await asked
    answer = handler(ctx, request)
    return await answer if hasattr(answer, "__await__") else answer
