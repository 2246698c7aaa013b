"""ExpireDelegationToken (key 40), versions 0 to 2: bring forward the end of a token (KIP-48).

v1: same bytes. v2: flexible. Its owner and its renewers may, and nobody else, whatever rules say.
Any broker does it, as in Kafka's ZooKeeper mode.
"""

from __future__ import annotations

from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.token_requests import check_may_ask, tokens_of
from kbroker.delegation_tokens.delegation_token import NO_TIME
from kbroker.errors import KafkaError
from kbroker.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


@api(ExpireDelegationTokenRequest)
async def handle(
    ctx: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """End a token, at once or after a time, and answer when this broker knows."""
    try:
        check_may_ask(ctx)
        tokens = tokens_of(ctx)
        asked = ctx.connection.principal, bytes(request.hmac), request.expiry_time_period_ms
        ends_ms = await tokens.expire(*asked)
    except KafkaError as refusal:
        return ExpireDelegationTokenResponse(error_code=refusal.code, expiry_timestamp_ms=NO_TIME)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=ends_ms)
