"""ExpireDelegationToken: bring forward the end of a delegation token (KIP-48).

v1: Same bytes as v0.
v2: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, message, wire


@message(key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest(Message):
    """The token, by its secret, and how long it still lasts; a negative time ends it at once."""

    hmac: bytes = wire("bytes", default=b"")
    expiry_time_period_ms: int = wire("int64", default=0)


@message(key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse(Message):
    """When the token ends now, in milliseconds since 1970."""

    error_code: int = wire("int16", default=0)
    expiry_timestamp_ms: int = wire("int64", default=0)
    throttle_time_ms: int = wire("int32", default=0)
