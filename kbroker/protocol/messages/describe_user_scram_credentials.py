"""DescribeUserScramCredentials: which SCRAM credentials users have, without their secrets
(KIP-554).

v0: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Message):
    """The users; null or none means all."""

    class UserName(Struct):
        name: str = wire("string", default="")

    users: list[DescribeUserScramCredentialsRequest.UserName] | None = wire(
        "[]UserName", nullable="0+", default=[]
    )


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Message):
    class CredentialInfo(Struct):
        """A mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512) and its iterations."""

        mechanism: int = wire("int8", default=0)
        iterations: int = wire("int32", default=0)

    class DescribeUserScramCredentialsResult(Struct):
        user: str = wire("string", default="")
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default="")
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = wire(
            "[]CredentialInfo", default=[]
        )

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default="")
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = wire(
        "[]DescribeUserScramCredentialsResult", default=[]
    )
