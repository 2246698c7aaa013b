"""CreateDelegationToken: give out a token with which others may speak for its owner (KIP-48,
KIP-373).

v1: Same bytes as v0.
v2: flexible.
v3: request gains owner_principal_type, owner_principal_name; response gains
    token_requester_principal_type, token_requester_principal_name.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenRequest(Message):
    """A token's owner, who may renew it, and its longest life; -1 leaves that to the broker."""

    class CreatableRenewers(Struct):
        """A principal that may renew the token before it expires."""

        principal_type: str = wire("string", default="")
        principal_name: str = wire("string", default="")

    owner_principal_type: str | None = wire("string", "3+", nullable="3+", default="")
    owner_principal_name: str | None = wire("string", "3+", nullable="3+", default="")
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = wire(
        "[]CreatableRenewers", default=[]
    )
    max_lifetime_ms: int = wire("int64", default=0)


@message(key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenResponse(Message):
    """The token; times are milliseconds since 1970."""

    error_code: int = wire("int16", default=0)
    principal_type: str = wire("string", default="")
    principal_name: str = wire("string", default="")
    token_requester_principal_type: str = wire("string", "3+", default="")
    token_requester_principal_name: str = wire("string", "3+", default="")
    issue_timestamp_ms: int = wire("int64", default=0)
    expiry_timestamp_ms: int = wire("int64", default=0)
    max_timestamp_ms: int = wire("int64", default=0)
    token_id: str = wire("string", default="")
    hmac: bytes = wire("bytes", default=b"")
    throttle_time_ms: int = wire("int32", default=0)
