"""LeaderAndIsr (key 4), versions 0 to 7: the controller says what this broker leads and follows.

v2: broker epoch, partitions under their topics. v5: topic ids. Refused with STALE_BROKER_EPOCH or
STALE_CONTROLLER_EPOCH as a whole.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse


@api(LeaderAndIsrRequest, ForRequest(AclOperation.CLUSTER_ACTION, the_cluster))
async def handle(ctx: RequestContext, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    """Lead and follow as ordered; each partition has its own outcome."""
    return await ctx.services.control.leader_and_isr(request, ctx.connection.number)
