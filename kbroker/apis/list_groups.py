"""ListGroups (16): the groups this broker coordinates.

v1: throttle time. v4: filter by state, and states (KIP-518). v5: filter by type, and types
(KIP-848); all groups here are classic.
"""

from __future__ import annotations

from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


@api(ListGroupsRequest, serves="0-5")
def handle(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups that pass the filters."""
    error, groups = ctx.groups.list_groups(request.states_filter, request.types_filter)
    return ListGroupsResponse(error_code=int(error), groups=groups)
