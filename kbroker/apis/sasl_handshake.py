"""SaslHandshake (key 17), versions 0 and 1: refused with ILLEGAL_SASL_STATE.

So does Kafka on a listener without SASL. Clients end at this answer; if the key is missing, some
connect again and again.
"""

from __future__ import annotations

from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kbroker.unserved import SASL


@api(SaslHandshakeRequest)
def handle(ctx: RequestContext, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    raise ctx.unserved(SASL, ErrorCode.ILLEGAL_SASL_STATE)
