"""SaslAuthenticate: carries the tokens of a SASL exchange (KIP-152, KIP-368).

v1: response gains session_lifetime_ms.
v2: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, message, wire


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Message):
    auth_bytes: bytes = wire("bytes", default=b"")


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    """The server's token, and how long the session lasts; 0 is for ever."""

    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default="")
    auth_bytes: bytes = wire("bytes", default=b"")
    session_lifetime_ms: int = wire("int64", "1+", default=0)
