"""EndTxn (26), versions 0 to 4: a producer commits or aborts its transaction (KIP-98).

v2: PRODUCER_FENCED is known. Answered when it is stored how the transaction ends: its markers are
written after that, and until they are, the next transaction gets CONCURRENT_TRANSACTIONS. Not
served: v5, whose transactions have an epoch each (transaction.version 2).
"""

from __future__ import annotations

from kbroker.apis.authorization import ForRequest, its_transactional_id
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.fenced_producers import FIRST_TRANSACTION_VERSION, as_known
from kbroker.apis.registry import api
from kbroker.coordinator.transaction.transaction import Producer
from kbroker.errors import KafkaError
from kbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


@api(EndTxnRequest, ForRequest(AclOperation.WRITE, its_transactional_id))
async def handle(ctx: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """End it."""
    try:
        await ctx.services.transactions.end(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            is_commit=request.committed,
        )
    except KafkaError as error:
        code = as_known(error.code, ctx.api_version, FIRST_TRANSACTION_VERSION)
        return EndTxnResponse(error_code=code)
    return EndTxnResponse()
