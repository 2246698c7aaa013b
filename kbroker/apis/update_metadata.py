"""UpdateMetadata (key 6), versions 0 to 8: the controller says who is alive and who leads what.

v0: brokers by host and port. v5: broker epoch, partitions under their topics. v7: topic ids.
Refused with STALE_BROKER_EPOCH or STALE_CONTROLLER_EPOCH as a whole.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


@api(UpdateMetadataRequest, ForRequest(AclOperation.CLUSTER_ACTION, the_cluster))
async def handle(ctx: RequestContext, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
    return await ctx.services.control.update_metadata(request, ctx.connection.number)
