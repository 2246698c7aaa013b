"""EndTxn (26), versions 0 to 5: a producer commits or aborts its transaction (KIP-98).

v2: PRODUCER_FENCED is known. Answered when it is stored how the transaction ends: its markers are
written after that, and until they are, the next transaction gets CONCURRENT_TRANSACTIONS. v5: the
producer's epoch ends with its transaction, and the answer has the next one (KIP-890).
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, its_transactional_id
from kbroker.apis.context import RequestContext
from kbroker.apis.fenced_producers import FIRST_TRANSACTION_VERSION, as_known
from kbroker.apis.registry import api
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import KafkaError
from kbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FIRST_VERSION_WITH_EPOCHS = 5


@api(EndTxnRequest, ForRequest(AclOperation.WRITE, its_transactional_id))
async def handle(ctx: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """End the transaction as its producer asks."""
    transactional_id, is_commit = request.transactional_id, request.committed
    producer = Producer(request.producer_id, request.producer_epoch)
    transactions = ctx.services.transactions
    try:
        if ctx.api_version < FIRST_VERSION_WITH_EPOCHS:
            await transactions.end(transactional_id, producer, is_commit=is_commit)
            return EndTxnResponse()
        after = await transactions.end_with_epoch(transactional_id, producer, is_commit=is_commit)
    except KafkaError as error:
        code = as_known(error.code, ctx.api_version, FIRST_TRANSACTION_VERSION)
        return EndTxnResponse(error_code=code)
    return EndTxnResponse(producer_id=after.producer_id, producer_epoch=after.epoch)
