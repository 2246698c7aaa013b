"""AddOffsetsToTxn (25), versions 0 to 4: the offsets that a group commits are to be part of a
producer's transaction (KIP-98).

v2: PRODUCER_FENCED is known. v4: Same content as v3. What takes part is the partition of
`__consumer_offsets` that keeps the group; the offsets come to its coordinator with TxnOffsetCommit.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, its_group, its_transactional_id
from kbroker.apis.context import RequestContext
from kbroker.apis.fenced_producers import FIRST_TRANSACTION_VERSION, as_known
from kbroker.apis.registry import api
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import KafkaError
from kbroker.model import GROUP_METADATA_TOPIC, TopicPartition
from kbroker.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)


@api(
    AddOffsetsToTxnRequest,
    ForRequest(AclOperation.WRITE, its_transactional_id),
    ForRequest(AclOperation.READ, its_group),
)
async def handle(ctx: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Add the partition of the group."""
    partition = ctx.services.groups.partition_for(request.group_id)
    try:
        await ctx.services.transactions.add_partitions(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            [TopicPartition(GROUP_METADATA_TOPIC, partition)],
        )
    except KafkaError as error:
        code = as_known(error.code, ctx.api_version, FIRST_TRANSACTION_VERSION)
        return AddOffsetsToTxnResponse(error_code=code)
    return AddOffsetsToTxnResponse()
