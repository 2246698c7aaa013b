"""StopReplica (key 5), versions 0 to 4: the controller stops replicas, or deletes them (KIP-570).

v1: broker epoch. v3: every partition with its leader epoch and whether its log goes. Refused with
STALE_BROKER_EPOCH or STALE_CONTROLLER_EPOCH as a whole.
"""

from __future__ import annotations

from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.peers.cluster_action import Speaker
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


@api(StopReplicaRequest, serves="0-4", speaker=Speaker.CONTROLLER)
async def handle(ctx: RequestContext, request: StopReplicaRequest) -> StopReplicaResponse:
    """Stop, and delete where ordered; each partition has its own outcome."""
    return await ctx.control.stop_replica(request)
