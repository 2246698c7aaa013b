"""DeleteAcls (key 31), versions 0 to 3: takes rules from the authorizer (KIP-140).

v1: the type of pattern (KIP-290). v2: flexible. v3: same bytes, with users as resources. Any broker
does it. Without `authorizer.class.name` every filter is refused, as by Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.acl.acl import AclOperation
from kbroker.acl.acl_filter import AclFilter
from kbroker.admin.acl_admin import Deleted
from kbroker.apis.acl_words import filter_of, without_rules
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.errors import KafkaError
from kbroker.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kbroker.turns import ENTRIES, in_turns

Result = DeleteAclsResponse.DeleteAclsFilterResult
MatchingAcl = DeleteAclsResponse.DeleteAclsMatchingAcl


@api(
    DeleteAclsRequest,
    ForRequest(AclOperation.ALTER, the_cluster),
    parts=Parts("filters", "filter_results"),
)
def handle(ctx: RequestContext, request: DeleteAclsRequest) -> NowOrLater[DeleteAclsResponse]:
    """Delete the rules, and answer when this broker decides without them."""
    if ctx.services.acls is None:
        return DeleteAclsResponse(
            filter_results=[_refused(without_rules(ctx.services.authorizer))] * len(request.filters)
        )
    return _delete(ctx, request)


async def _delete(ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    assert ctx.services.acls is not None
    filters: list[AclFilter | None] = []
    refusals: list[KafkaError | None] = []
    for each in request.filters:
        refusals.append(None)
        try:
            filters.append(filter_of(each))
        except KafkaError as error:
            filters.append(None)
            refusals[-1] = error.with_traceback(None)
    deleted = await ctx.services.acls.delete(filters)
    response = DeleteAclsResponse()
    response.is_large = sum(map(len, deleted)) > ENTRIES
    for refusal, some in zip(refusals, deleted, strict=True):
        result = Result(error_message=None) if refusal is None else _refused(refusal)
        response.filter_results.append(result)
        await in_turns(_fill(result, some))
    return response


def _fill(result: Result, deleted: list[Deleted]) -> Iterator[None]:
    for each in deleted:
        result.matching_acls.append(_matching(each))
        yield


def _refused(error: KafkaError) -> Result:
    return Result(error_code=error.code, error_message=error.message)


def _matching(deleted: Deleted) -> MatchingAcl:
    pattern, acl, refusal = deleted
    return MatchingAcl(
        error_code=0 if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
        resource_type=pattern.type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
