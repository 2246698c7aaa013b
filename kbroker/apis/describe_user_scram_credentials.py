"""DescribeUserScramCredentials (key 50), version 0: who has which SCRAM credentials (KIP-554).

The answer has mechanisms and iterations, nothing from which a password could be guessed. A
credential that cannot be read is skipped: nobody can log in by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kbroker.acl.acl import AclOperation
from kbroker.admin.scram_users import credentials_of
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Again, Parts
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kbroker.sasl.scram_keys import MECHANISM_NUMBERS
from kbroker.zk.zk_paths import USER_CONFIGS

Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
Credential = DescribeUserScramCredentialsResponse.CredentialInfo


@api(
    DescribeUserScramCredentialsRequest,
    ForRequest(AclOperation.DESCRIBE, the_cluster),
    parts=Parts("users", "results", key="name", again=Again.LEFT_OUT),
)
async def handle(
    ctx: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Describe the credentials of the users asked for, or of all that have any."""
    stored = {
        name: _credentials(overrides)
        for (name,), overrides in (await ctx.services.configs.entities(USER_CONFIGS)).items()
        if name is not None
    }
    asked = Counter(user.name for user in request.users or ())
    if not asked:
        results = [Result(user=u, credential_infos=c) for u, c in sorted(stored.items()) if c]
    else:
        results = [
            _result(user, times > 1 or user in ctx.twice, stored.get(user, []))
            for user, times in asked.items()
        ]
    return DescribeUserScramCredentialsResponse(results=results)


def _result(user: str, is_twice: bool, credentials: list[Credential]) -> Result:
    if is_twice:
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
        return Result(user=user, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=message)
    if credentials:
        return Result(user=user, credential_infos=credentials)
    message = f"Attempt to describe a user credential that does not exist: {user}"
    if not user:
        message = "Username must not be empty"
    return Result(user=user, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=message)


def _credentials(overrides: Mapping[str, str]) -> list[Credential]:
    found = credentials_of(overrides)
    return [
        Credential(mechanism=number, iterations=found[mechanism.sasl_name])
        for number, mechanism in MECHANISM_NUMBERS.items()
        if mechanism.sasl_name in found
    ]
