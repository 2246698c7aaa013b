"""AlterUserScramCredentials (key 51), version 0: users get and lose SCRAM credentials (KIP-554).

Any broker writes them to the tree, where each change expects what it has read. In Kafka 3.9 only
the controller does, and others answer NOT_CONTROLLER. The salted password is kept nowhere.
"""

from __future__ import annotations

from kbroker.admin.scram_users import user_changes
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.errors import KafkaError
from kbroker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kbroker.turns import turn

Result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


@api(AlterUserScramCredentialsRequest, ForRequest(AclOperation.ALTER, the_cluster))
async def handle(
    ctx: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change the credentials of each user by itself; refusals come first, as in Kafka."""
    refused, changes = user_changes(request.deletions, request.upsertions)
    done = []
    for user, change in changes.items():
        await turn()
        try:
            await ctx.services.configs.change_user(user, change.applied)
        except KafkaError as error:
            refused[user] = error.with_traceback(None)
        else:
            done.append(Result(user=user))
    refusals = [
        Result(user=user, error_code=error.code, error_message=error.message)
        for user, error in refused.items()
    ]
    return AlterUserScramCredentialsResponse(results=[*refusals, *done])
