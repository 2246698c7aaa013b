"""DescribeGroups (15): state, protocol and members of groups.

v3: authorized operations. v4: group instance ids. v6: GROUP_ID_NOT_FOUND with a text for a group
that is not there (KIP-1043); before, such a group was Dead and nothing more.
"""

from __future__ import annotations

from kbroker.apis.context import RequestContext
from kbroker.apis.large_requests import Parts
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_READ, _DELETE, _DESCRIBE = 3, 6, 8  # ids of ACL operations, bits of the answer
ALL_GROUP_OPERATIONS = 1 << _READ | 1 << _DELETE | 1 << _DESCRIBE


@api(DescribeGroupsRequest, serves="0-6", parts=Parts("groups", "groups"))
def handle(ctx: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe each group."""
    groups = []
    for group_id in request.groups:
        error, described = ctx.groups.describe_group(group_id)
        if error is ErrorCode.GROUP_ID_NOT_FOUND:
            if ctx.api_version < 6:
                error = ErrorCode.NONE
            else:
                described.error_message = f"Group {group_id} not found."
        described.error_code = int(error)
        if request.include_authorized_operations and error is ErrorCode.NONE:
            described.authorized_operations = ALL_GROUP_OPERATIONS
        groups.append(described)
    return DescribeGroupsResponse(groups=groups)
