"""SaslHandshake (key 17), versions 0 and 1: refused with ILLEGAL_SASL_STATE, as by Kafka.

What reaches this handler belongs to no login, as the gate of a listener with SASL answers those
itself: the client is logged in, or the listener has no logins. Clients end at this answer; if the
key is missing, some connect again and again.
"""

from __future__ import annotations

from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kbroker.unserved import SASL


@api(SaslHandshakeRequest)
def handle(ctx: RequestContext, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse what belongs to no login."""
    if ctx.has_logins:
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
    raise ctx.unserved(SASL, ErrorCode.ILLEGAL_SASL_STATE)
