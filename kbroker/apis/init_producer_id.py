"""InitProducerId (key 22), versions 0 to 5: a producer id for an idempotent producer (KIP-98).

v3: a producer may name the id it had (KIP-360); without a transactional id it gets a new one all
the same. v4: PRODUCER_FENCED is known. v5: TRANSACTION_ABORTABLE is known. Not served: v6, unstable
in Kafka. Not implemented: transactional producers, refused with UNSUPPORTED_VERSION after Kafka's
own checks.
"""

from __future__ import annotations

from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kbroker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)


@api(InitProducerIdRequest, serves="0-5")
async def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Hand out the next producer id, with epoch 0."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(_transactional_refusal(ctx, request))
    try:
        producer_id = await ctx.producer_ids.generate()
    except KafkaError as error:
        return _refused(error.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _transactional_refusal(ctx: RequestContext, request: InitProducerIdRequest) -> ErrorCode:
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    longest_ms = ctx.config.transaction.transaction_max_timeout_ms
    if not 0 < request.transaction_timeout_ms <= longest_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.UNSUPPORTED_VERSION


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
