"""Requests that only the controller can answer, on a broker that is not controller.

They are passed on, and the answer leaves when this broker shows what it says was done: a client
that creates a topic and asks the same broker for it must find it. Nobody is asked about nothing,
which is what is left of a request whose entries are all refused here.
"""

from __future__ import annotations

from typing import Any

from kbroker.apis.authorization import ForEach
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import Api, Handler
from kbroker.protocol.schema import Message, response_class


def handler_of(api: Api) -> Handler:
    """Return the handler that answers an API's requests on any broker."""
    handler, is_shown = api.handler, api.forwarded
    if is_shown is None:
        return handler
    arrays = {need.asked for need in api.needs if isinstance(need, ForEach)}

    async def handle(ctx: RequestContext, request: Message) -> Any:
        if ctx.services.controller.is_active or ctx.connection.is_forwarded:
            return await handler(ctx, request)
        if arrays and not any(getattr(request, name) for name in arrays):
            return response_class(api.request_class)()
        answer = await ctx.services.forwarding.forward(
            ctx.header, ctx.connection, request, lambda: handler(ctx, request)
        )
        await ctx.services.forwarding.wait_until_shown(lambda: is_shown(ctx, request, answer))
        return answer

    return handle
