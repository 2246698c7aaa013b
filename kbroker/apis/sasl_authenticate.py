"""SaslAuthenticate (key 36), versions 0 to 2: refused with ILLEGAL_SASL_STATE, as by Kafka.

What reaches this handler belongs to no login, as with SaslHandshake.

v1: how long the session lasts. v2: flexible.
"""

from __future__ import annotations

from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kbroker.unserved import SASL


@api(SaslAuthenticateRequest)
def handle(ctx: RequestContext, _request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Refuse what belongs to no login."""
    if not ctx.has_logins:
        ctx.unserved(SASL)
    raise KafkaError(
        ErrorCode.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication",
    )
