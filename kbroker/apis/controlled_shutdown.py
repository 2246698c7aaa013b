"""ControlledShutdown (key 7), versions 0 to 3: a broker that stops has its leaderships moved.

v0: its request header has no client id. v2: broker epoch. A broker that is not controller answers
STALE_CONTROLLER_EPOCH, as Kafka's do for this request alone.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

RemainingPartition = ControlledShutdownResponse.RemainingPartition


@api(ControlledShutdownRequest, ForRequest(AclOperation.CLUSTER_ACTION, the_cluster))
async def handle(
    ctx: RequestContext, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    """Let others lead what the broker leads, and say what it leads still."""
    try:
        remaining = await ctx.services.controller.controlled_shutdown(
            request.broker_id, request.broker_epoch
        )
    except KafkaError as error:
        moved = error.code is ErrorCode.NOT_CONTROLLER
        code = ErrorCode.STALE_CONTROLLER_EPOCH if moved else error.code
        return ControlledShutdownResponse(error_code=code)
    return ControlledShutdownResponse(
        remaining_partitions=[
            RemainingPartition(topic_name=topic, partition_index=partition)
            for topic, partition in remaining
        ]
    )
