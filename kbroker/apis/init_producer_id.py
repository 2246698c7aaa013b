"""InitProducerId (key 22), versions 0 to 5: a producer id for an idempotent producer (KIP-98).

v3: a producer may name the id it had (KIP-360); without a transactional id it gets a new one all
the same. v4: PRODUCER_FENCED is known. v5: TRANSACTION_ABORTABLE is known. Not served: v6, unstable
in Kafka. Not implemented: transactional producers, refused with UNSUPPORTED_VERSION after Kafka's
own checks.
"""

from __future__ import annotations

from kbroker.apis.authorization import AskedInside, ForRequest, its_transactional_id
from kbroker.apis.authorizer import CLUSTER, AclOperation, ResourceType
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kbroker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kbroker.unserved import TRANSACTIONS


@api(
    InitProducerIdRequest,
    ForRequest(AclOperation.WRITE, its_transactional_id),
    AskedInside(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
    AskedInside(AclOperation.WRITE, ResourceType.TOPIC),
)
async def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Hand out the next producer id, with epoch 0."""
    if request.transactional_id is None and not _may_be_idempotent(ctx):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(_transactional_refusal(ctx, request))
    try:
        producer_id = await ctx.services.producer_ids.generate()
    except KafkaError as error:
        return _refused(error.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _may_be_idempotent(ctx: RequestContext) -> bool:
    """Whoever may write to any topic may do so with a producer id (KIP-679)."""
    return ctx.is_authorized(
        AclOperation.IDEMPOTENT_WRITE, CLUSTER
    ) or ctx.services.authorizer.authorize_by_resource_type(
        ctx.connection, AclOperation.WRITE, ResourceType.TOPIC
    )


def _transactional_refusal(ctx: RequestContext, request: InitProducerIdRequest) -> ErrorCode:
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    longest_ms = ctx.services.config.transaction.transaction_max_timeout_ms
    if not 0 < request.transaction_timeout_ms <= longest_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ctx.unserved(TRANSACTIONS).code


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
