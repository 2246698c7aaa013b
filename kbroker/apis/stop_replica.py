"""StopReplica (key 5), versions 0 to 4: the controller stops replicas, or deletes them (KIP-570).

v1: broker epoch. v3: every partition with its leader epoch and whether its log goes. Refused with
STALE_BROKER_EPOCH or STALE_CONTROLLER_EPOCH as a whole.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


@api(StopReplicaRequest, ForRequest(AclOperation.CLUSTER_ACTION, the_cluster))
async def handle(ctx: RequestContext, request: StopReplicaRequest) -> StopReplicaResponse:
    """Stop, and delete if ordered; each partition has its own outcome."""
    return await ctx.services.control.stop_replica(request, ctx.connection.number)
