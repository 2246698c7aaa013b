"""Heartbeat (12): a member is alive and learns whether its group rebalances.

v1: throttle time. v3: group instance id. Never waits; while the group is being loaded it is simply
confirmed.
"""

from __future__ import annotations

from kbroker.apis.authorization import ForRequest, its_group
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@api(HeartbeatRequest, ForRequest(AclOperation.READ, its_group), repeats=True)
def handle(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=int(ctx.services.groups.heartbeat(request)))
