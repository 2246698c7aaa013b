"""AllocateProducerIds (key 67), version 0: the controller gives a broker a block of producer ids.

Kafka's brokers ask for blocks this way (KIP-730); the epoch must be that of their registration.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


@api(AllocateProducerIdsRequest, ForRequest(AclOperation.CLUSTER_ACTION, the_cluster))
async def handle(
    ctx: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Take a block in the broker's name."""
    context = ctx.services.controller.context
    if not ctx.services.controller.is_active or context is None:
        return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    broker = context.live_brokers.get(request.broker_id)
    if broker is None:
        return AllocateProducerIdsResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
    if broker.epoch != request.broker_epoch:
        return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    block = await ctx.services.producer_ids.allocate_block(request.broker_id)
    return AllocateProducerIdsResponse(
        producer_id_start=block.first_id, producer_id_len=block.last_id - block.first_id + 1
    )
