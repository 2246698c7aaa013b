"""DeleteGroups (42): forget groups without members, and their offsets (KIP-229).

v1: same bytes as v0. v3: error message.
"""

from __future__ import annotations

from kbroker.apis.authorization import ForEach, named_group
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.large_requests import Parts
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

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
    parts=Parts("groups_names", "results", key=""),
)
def handle(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete each group named, once."""
    return DeleteGroupsResponse(
        results=[_delete(ctx, group_id) for group_id in dict.fromkeys(request.groups_names)]
    )


def _delete(ctx: RequestContext, group_id: str) -> DeleteGroupsResponse.DeletableGroupResult:
    error: ErrorCode = ctx.services.groups.delete_group(group_id)
    text = _MESSAGES.get(error)
    return DeleteGroupsResponse.DeletableGroupResult(
        group_id=group_id,
        error_code=int(error),
        error_message=None if text is None else text.format(group_id),
    )
