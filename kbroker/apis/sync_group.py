"""SyncGroup (14): a member fetches its assignment, the leader brings everybody's.

v1: throttle time. v3: group instance id. v5: protocol type and name, checked where they are given
(KIP-559).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@api(SyncGroupRequest, serves="0-5")
def handle(
    ctx: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Wait for the leader's assignments, or bring them."""
    is_incomplete = request.protocol_type is None or request.protocol_name is None
    if ctx.api_version >= 5 and is_incomplete:
        return SyncGroupResponse(error_code=int(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    outcome: SyncGroupResponse | Awaitable[SyncGroupResponse] = ctx.groups.sync_group(request)
    return outcome
