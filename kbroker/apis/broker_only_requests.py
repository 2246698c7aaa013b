"""Requests that only brokers, or only the controller, may send: who stands before their handlers.

Law: `Peers` decides by the fields in which a request names its sender, and a handler never looks at
its sender itself: so the decision has one place (except for WriteTxnMarkers, of which
administrators may send a part). Anybody else gets CLUSTER_AUTHORIZATION_FAILED in the shape of that
API, as Kafka answers a sender without CLUSTER_ACTION.
"""

from __future__ import annotations

import inspect
from typing import Any

from kbroker.apis.authorizer import ALLOW_ALL
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import Handler
from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.peers.cluster_action import BrokerClaim, ControllerClaim, Sender
from kbroker.protocol.messages.envelope import EnvelopeRequest
from kbroker.protocol.schema import Message

# No broker has that id, which each API says in its own words.
_LEFT_TO_THE_HANDLER = (ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED)


def heard_only_from(sender: Sender, handler: Handler) -> Handler:
    """Return the handler, for senders that may send its requests."""
    if sender is Sender.ANYBODY:
        return handler

    async def handle(ctx: RequestContext, request: Message) -> Any:
        refusal = await _refusal(ctx, sender, request)
        if refusal not in _LEFT_TO_THE_HANDLER:
            raise KafkaError(refusal)
        answer = handler(ctx, request)
        return await answer if inspect.isawaitable(answer) else answer

    return handle


async def _refusal(ctx: RequestContext, sender: Sender, request: Any) -> ErrorCode:
    names_sender = sender is Sender.CONTROLLER or hasattr(request, "broker_id")
    if not ctx.may_be_from_broker():
        # Without an authorizer; one answers in its own words.
        if ctx.services.authorizer is ALLOW_ALL and isinstance(
            request, EnvelopeRequest
        ):  # at which Kafka closes the connection
            raise ProtocolError(
                f"{type(request).__name__} on listener {ctx.connection.listener_name}"
            )
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if sender is Sender.CONTROLLER:
        claim = ControllerClaim(request.controller_id, request.controller_epoch)
        return await ctx.services.peers.controller_refusal(claim)
    if names_sender:
        return await ctx.services.peers.broker_refusal(
            BrokerClaim(request.broker_id, request.broker_epoch)
        )
    return ErrorCode.NONE
