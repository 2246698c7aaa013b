"""RenewDelegationToken: put off the end of a delegation token (KIP-48).

v1: Same bytes as v0.
v2: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, message, wire


@message(key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenRequest(Message):
    hmac: bytes = wire("bytes", default=b"")
    renew_period_ms: int = wire("int64", default=0)


@message(key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenResponse(Message):
    """When the token ends now, in milliseconds since 1970."""

    error_code: int = wire("int16", default=0)
    expiry_timestamp_ms: int = wire("int64", default=0)
    throttle_time_ms: int = wire("int32", default=0)
