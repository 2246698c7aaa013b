"""WriteTxnMarkers (27), versions 0 and 1: the ends of transactions are written to partitions that
this broker leads: for a transaction coordinator (KIP-98), or for an administrator, who aborts a
transaction that no coordinator knows of (KIP-664, KIP-1037).

v1: Same content as v0. Each partition has its own outcome. Where no broker speaks, commits are
refused: only a coordinator knows that all partitions are ready for one, and no tool of Kafka writes
one. Kafka writes whatever who may alter the cluster asks for.
"""

from __future__ import annotations

from typing import Any

from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def _always(_request: Any) -> bool:
    """Quotas do not hold up the end of a transaction, as in Kafka."""
    return True


@api(
    WriteTxnMarkersRequest,
    ForRequest(AclOperation.CLUSTER_ACTION, the_cluster, unless=AclOperation.ALTER),
    parts=Parts("markers", "markers"),
    exempt=_always,
)
async def handle(ctx: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Write them."""
    if not ctx.services.peers.are_heard_on(ctx.connection.listener_name) and any(
        marker.transaction_result for marker in request.markers
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await ctx.services.markers.write(request)
