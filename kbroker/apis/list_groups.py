"""ListGroups (16): the groups this broker coordinates.

v1: throttle time. v4: filter by state, and states (KIP-518). v5: filter by type, and types
(KIP-848); all groups here are classic.
"""

from __future__ import annotations

from kbroker.apis.authorization import AskedInside
from kbroker.apis.authorizer import CLUSTER, AclOperation, ResourceType
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


@api(
    ListGroupsRequest,
    AskedInside(AclOperation.DESCRIBE, ResourceType.CLUSTER),
    AskedInside(AclOperation.DESCRIBE, ResourceType.GROUP),
)
def handle(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups that pass the filters and that the client may see."""
    error, groups = ctx.services.groups.list_groups(request.states_filter, request.types_filter)
    if not ctx.is_authorized(AclOperation.DESCRIBE, CLUSTER):
        names = [group.group_id for group in groups]
        hidden = ctx.refused(AclOperation.DESCRIBE, ResourceType.GROUP, names)
        groups = [group for group in groups if group.group_id not in hidden]
    return ListGroupsResponse(error_code=int(error), groups=groups)
