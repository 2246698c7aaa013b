"""CreateAcls (key 30), versions 0 to 3: rules for the authorizer (KIP-140).

v1: the type of pattern (KIP-290). v2: flexible. v3: same bytes, with users as resources. Any broker
does it. Without `authorizer.class.name` every rule is refused, as by Kafka.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.admin.acl_admin import Wish
from kbroker.apis.acl_words import rule_of, without_rules
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.errors import KafkaError
from kbroker.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse

Result = CreateAclsResponse.AclCreationResult


@api(
    CreateAclsRequest,
    ForRequest(AclOperation.ALTER, the_cluster),
    parts=Parts("creations", "results"),
)
def handle(ctx: RequestContext, request: CreateAclsRequest) -> NowOrLater[CreateAclsResponse]:
    """Create the rules, and answer when this broker decides by them."""
    if ctx.services.acls is None:
        refusal = _refused(without_rules(ctx.services.authorizer))
        return CreateAclsResponse(results=[refusal] * len(request.creations))
    return _create(ctx, request)


async def _create(ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    assert ctx.services.acls is not None
    refusals: list[KafkaError | None] = []
    wishes: list[Wish] = []
    for creation in request.creations:
        try:
            wishes.append(rule_of(creation))
            refusals.append(None)
        except KafkaError as error:
            refusals.append(error.with_traceback(None))
    outcomes = iter(await ctx.services.acls.create(wishes))
    results = [_refused(refusal or next(outcomes)) for refusal in refusals]
    return CreateAclsResponse(results=results)


def _refused(error: KafkaError | None) -> Result:
    return Result() if error is None else Result(error_code=error.code, error_message=error.message)
