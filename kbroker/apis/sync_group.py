"""SyncGroup (14): a member fetches its assignment, the leader brings everybody's.

v1: throttle time. v3: group instance id. v5: protocol type and name, checked if they are given
(KIP-559).
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, its_group
from kbroker.apis.context import RequestContext
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@api(SyncGroupRequest, ForRequest(AclOperation.READ, its_group))
def handle(ctx: RequestContext, request: SyncGroupRequest) -> NowOrLater[SyncGroupResponse]:
    """Wait for the leader's assignments, or bring them."""
    is_incomplete = request.protocol_type is None or request.protocol_name is None
    if ctx.api_version >= 5 and is_incomplete:
        return SyncGroupResponse(error_code=int(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    outcome: NowOrLater[SyncGroupResponse] = ctx.services.groups.sync_group(request)
    return outcome
