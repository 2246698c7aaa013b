"""DescribeGroups (15): state, protocol and members of groups.

v3: authorized operations. v4: group instance ids. v6: GROUP_ID_NOT_FOUND with a text for a group
that is not there or speaks another protocol (KIP-1043); before, such a group was Dead and nothing
more.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.authorization import ForEach, named_group
from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import is_large, written
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

Group = DescribeGroupsResponse.DescribedGroup

_BYTES_OF_GROUP = 64


@api(
    DescribeGroupsRequest,
    ForEach(
        operation=AclOperation.DESCRIBE, resource=named_group, asked="groups", answered="groups"
    ),
    parts=Parts("groups", "groups"),
)
def handle(
    ctx: RequestContext, request: DescribeGroupsRequest
) -> NowOrLater[DescribeGroupsResponse]:
    """Describe each group, some at a time."""
    names = request.groups
    bytes_of = {name: ctx.services.groups.described_bytes(name) for name in set(names)}
    size_bytes = sum(bytes_of[name] + _BYTES_OF_GROUP for name in names)
    response = DescribeGroupsResponse()
    if is_large(size_bytes):
        parts = ([_described(ctx, request, name)] for name in names)
        return written(ctx, response, "groups", parts, size_bytes)
    response.groups = [_described(ctx, request, name) for name in names]
    return response


def _described(ctx: RequestContext, request: DescribeGroupsRequest, group_id: str) -> Group:
    error, described = ctx.services.groups.describe_group(group_id)
    if error is ErrorCode.GROUP_ID_NOT_FOUND and ctx.api_version < 6:
        error = ErrorCode.NONE
    described.error_code = int(error)
    if request.include_authorized_operations and error is ErrorCode.NONE:
        resource = AclResource(AclResourceType.GROUP, group_id)
        described.authorized_operations = ctx.authorized_operations(resource)
    return described
