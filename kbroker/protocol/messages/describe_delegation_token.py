"""DescribeDelegationToken: the delegation tokens of owners (KIP-48, KIP-373).

v1: Same bytes as v0.
v2: flexible.
v3: response gains token_requester_principal_type, token_requester_principal_name.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest(Message):
    """The owners; null means every token that the asker may see."""

    class DescribeDelegationTokenOwner(Struct):
        principal_type: str = wire("string", default="")
        principal_name: str = wire("string", default="")

    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = wire(
        "[]DescribeDelegationTokenOwner", nullable="0+", default=[]
    )


@message(key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenResponse(Message):
    class DescribedDelegationTokenRenewer(Struct):
        principal_type: str = wire("string", default="")
        principal_name: str = wire("string", default="")

    class DescribedDelegationToken(Struct):
        """A token; times are milliseconds since 1970."""

        principal_type: str = wire("string", default="")
        principal_name: str = wire("string", default="")
        token_requester_principal_type: str = wire("string", "3+", default="")
        token_requester_principal_name: str = wire("string", "3+", default="")
        issue_timestamp: int = wire("int64", default=0)
        expiry_timestamp: int = wire("int64", default=0)
        max_timestamp: int = wire("int64", default=0)
        token_id: str = wire("string", default="")
        hmac: bytes = wire("bytes", default=b"")
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = wire(
            "[]DescribedDelegationTokenRenewer", default=[]
        )

    error_code: int = wire("int16", default=0)
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = wire(
        "[]DescribedDelegationToken", default=[]
    )
    throttle_time_ms: int = wire("int32", default=0)
