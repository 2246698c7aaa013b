"""DescribeUserScramCredentials: which SCRAM credentials users have, without their secrets
(KIP-554).

v0: flexible.
"""

from __future__ import annotations

from kbroker.errors import ErrorCode
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Message):
    """The users; null or none means all."""

    class UserName(Struct):
        name: str = wire("string", default="")

    users: list[DescribeUserScramCredentialsRequest.UserName] | None = wire(
        "[]UserName", nullable="0+", default=[]
    )

    def error_response(
        self, code: ErrorCode, version: int, message: str | None = None, throttle_time_ms: int = 0
    ) -> Message:
        """Answer for each user, too, without a name, as Kafka does."""
        response = super().error_response(code, version, message, throttle_time_ms)
        assert isinstance(response, DescribeUserScramCredentialsResponse)
        result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
        response.results = [
            result(error_code=code, error_message=message) for _ in self.users or ()
        ]
        return response


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
