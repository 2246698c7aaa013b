"""WriteTxnMarkers (key 27), versions 0 and 1: a transaction coordinator has this broker write the
ends of transactions to the partitions it leads (KIP-98).

v1: Same content as v0. Each partition has its own outcome.
"""

from __future__ import annotations

from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


@api(WriteTxnMarkersRequest, ForRequest(AclOperation.CLUSTER_ACTION, the_cluster))
async def handle(ctx: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Write them."""
    return await ctx.services.markers.write(request)
