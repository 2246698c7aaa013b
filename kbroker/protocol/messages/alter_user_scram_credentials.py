"""AlterUserScramCredentials: set or remove SCRAM credentials of users (KIP-554).

v0: flexible.
"""

from __future__ import annotations

from kbroker.errors import ErrorCode
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Message):
    """The changes; mechanisms are 1 SCRAM-SHA-256 and 2 SCRAM-SHA-512."""

    class ScramCredentialDeletion(Struct):
        name: str = wire("string", default="")
        mechanism: int = wire("int8", default=0)

    class ScramCredentialUpsertion(Struct):
        """A credential to set; its password has been salted by the client."""

        name: str = wire("string", default="")
        mechanism: int = wire("int8", default=0)
        iterations: int = wire("int32", default=0)
        salt: bytes = wire("bytes", default=b"")
        salted_password: bytes = wire("bytes", default=b"")

    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = wire(
        "[]ScramCredentialDeletion", default=[]
    )
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = wire(
        "[]ScramCredentialUpsertion", default=[]
    )

    def error_response(
        self, code: ErrorCode, _version: int, message: str | None = None, throttle_time_ms: int = 0
    ) -> AlterUserScramCredentialsResponse:
        """Every user is named once, whichever of the two arrays names it."""
        kind = AlterUserScramCredentialsResponse
        users = dict.fromkeys(
            [*(each.name for each in self.deletions), *(each.name for each in self.upsertions)]
        )
        return kind(
            throttle_time_ms=throttle_time_ms,
            results=[
                kind.AlterUserScramCredentialsResult(
                    user=user, error_code=code, error_message=message
                )
                for user in users
            ],
        )


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Message):
    class AlterUserScramCredentialsResult(Struct):
        user: str = wire("string", default="")
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default="")

    throttle_time_ms: int = wire("int32", default=0)
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = wire(
        "[]AlterUserScramCredentialsResult", default=[]
    )
