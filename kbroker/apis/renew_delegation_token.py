"""RenewDelegationToken (key 39), versions 0 to 2: put off the end of a token (KIP-48).

v1: same bytes. v2: flexible. Its owner and its renewers may, and nobody else, whatever rules say.
Any broker does it, as in Kafka's ZooKeeper mode.
"""

from __future__ import annotations

from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.token_requests import check_may_ask, tokens_of
from kbroker.delegation_tokens.delegation_token import NO_TIME
from kbroker.errors import KafkaError
from kbroker.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


@api(RenewDelegationTokenRequest)
async def handle(
    ctx: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Set the end of a token from now on, and answer when this broker knows."""
    try:
        check_may_ask(ctx)
        tokens = tokens_of(ctx)
        asked = ctx.connection.principal, bytes(request.hmac), request.renew_period_ms
        ends_ms = await tokens.renew(*asked)
    except KafkaError as refusal:
        return RenewDelegationTokenResponse(error_code=refusal.code, expiry_timestamp_ms=NO_TIME)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=ends_ms)
