"""AlterUserScramCredentials (key 51), version 0: users get and lose SCRAM credentials (KIP-554).

Any broker writes them to the tree, where each change expects what it has read. In Kafka 3.9 only
the controller does, and others answer NOT_CONTROLLER. The salted password is kept nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kbroker.acl.acl import AclOperation
from kbroker.admin.scram_users import alter_users
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.request_parts import AS_A_WHOLE
from kbroker.errors import KafkaError
from kbroker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kbroker.turns import in_turns

Result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


@api(
    AlterUserScramCredentialsRequest,
    ForRequest(AclOperation.ALTER, the_cluster),
    parts=AS_A_WHOLE,
)
async def handle(
    ctx: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change the credentials of each user by itself; refusals come first, as in Kafka."""
    change_user = ctx.services.configs.change_user
    outcomes = await alter_users(change_user, request.deletions, request.upsertions)
    response = AlterUserScramCredentialsResponse()
    await in_turns(_filled(response, outcomes))
    return response


def _filled(
    response: AlterUserScramCredentialsResponse, outcomes: Mapping[str, KafkaError | None]
) -> Iterator[None]:
    for user, refusal in outcomes.items():
        response.results.append(_result(user, refusal))
        yield


def _result(user: str, refusal: KafkaError | None) -> Result:
    if refusal is None:
        return Result(user=user)
    return Result(user=user, error_code=refusal.code, error_message=refusal.message)
