"""DeleteGroups (42): forget groups without members, and their offsets (KIP-229).

v1: same bytes as v0. v3: error message.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForEach, named_group
from kbroker.apis.context import RequestContext
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Again, Parts
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kbroker.turns import turn

_MESSAGES = {
    ErrorCode.GROUP_ID_NOT_FOUND: "Group {} not found.",
    ErrorCode.NON_EMPTY_GROUP: "Group {} is not empty.",
}


@api(
    DeleteGroupsRequest,
    ForEach(
        operation=AclOperation.DELETE,
        resource=named_group,
        asked="groups_names",
        answered="results",
    ),
    parts=Parts("groups_names", "results", key="", again=Again.LEFT_OUT),
)
async def handle(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete each group named, once, in a turn of its own: it may have thousands of offsets."""
    group_ids = list(dict.fromkeys(request.groups_names))
    outcomes: list[NowOrLater[ErrorCode]] = []
    for group_id in group_ids:
        outcomes.append(ctx.services.groups.delete_group(group_id))
        if outcomes[-1] is not ErrorCode.GROUP_ID_NOT_FOUND:
            await turn()
    codes = [code if isinstance(code, ErrorCode) else await code for code in outcomes]
    return DeleteGroupsResponse(results=list(map(_result, group_ids, codes)))


def _result(group_id: str, error: ErrorCode) -> DeleteGroupsResponse.DeletableGroupResult:
    text = _MESSAGES.get(error)
    return DeleteGroupsResponse.DeletableGroupResult(
        group_id=group_id,
        error_code=int(error),
        error_message=None if text is None else text.format(group_id),
    )
