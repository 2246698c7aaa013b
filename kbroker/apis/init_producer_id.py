"""InitProducerId (key 22), versions 0 to 5: a producer id for an idempotent producer, or for the
producer of a transactional id (KIP-98).

v3: a producer may name the id it had (KIP-360); without a transactional id it gets a new one all
the same. v4: PRODUCER_FENCED is known. v5: TRANSACTION_ABORTABLE is known. Not served: v6, unstable
in Kafka. A transaction that is open is aborted first, and the producer comes again until it is.
"""

from __future__ import annotations

from kbroker.acl.acl import CLUSTER, AclOperation, AclResourceType
from kbroker.apis.authorization import AskedInside, ForRequest, its_transactional_id
from kbroker.apis.authorizer import Purpose
from kbroker.apis.context import RequestContext
from kbroker.apis.fenced_producers import as_known
from kbroker.apis.registry import api
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kbroker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

_FIRST_VERSION_WITH_FENCED = 4


@api(
    InitProducerIdRequest,
    ForRequest(AclOperation.WRITE, its_transactional_id),
    AskedInside(AclOperation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER),
    AskedInside(AclOperation.WRITE, AclResourceType.TOPIC),
)
async def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Hand out the next producer id with epoch 0, or the next epoch of a transactional id."""
    if request.transactional_id is None and not await _may_be_idempotent(ctx):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    try:
        producer = await _producer(ctx, request)
    except KafkaError as error:
        return _refused(as_known(error.code, ctx.api_version, _FIRST_VERSION_WITH_FENCED))
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)


async def _producer(ctx: RequestContext, request: InitProducerIdRequest) -> Producer:
    if request.transactional_id is None:
        return Producer(await ctx.services.producer_ids.generate(), 0)
    return await ctx.services.transactions.init_producer_id(
        request.transactional_id,
        request.transaction_timeout_ms,
        Producer(request.producer_id, request.producer_epoch),
    )


async def _may_be_idempotent(ctx: RequestContext) -> bool:
    """Whoever may write to any topic may do so with a producer id (KIP-679)."""
    return ctx.is_authorized(
        AclOperation.IDEMPOTENT_WRITE, CLUSTER, Purpose.TO_CHOOSE
    ) or await ctx.is_authorized_somewhere(AclOperation.WRITE, AclResourceType.TOPIC)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
