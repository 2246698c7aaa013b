"""DescribeTransactions: the state of transactions (KIP-664).

v0: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest(Message):
    transactional_ids: list[str] = wire("[]string", default=[])


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse(Message):
    class TopicData(Struct):
        topic: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    class TransactionState(Struct):
        error_code: int = wire("int16", default=0)
        transactional_id: str = wire("string", default="")
        transaction_state: str = wire("string", default="")
        transaction_timeout_ms: int = wire("int32", default=0)
        transaction_start_time_ms: int = wire("int64", default=0)
        producer_id: int = wire("int64", default=0)
        producer_epoch: int = wire("int16", default=0)
        topics: list[DescribeTransactionsResponse.TopicData] = wire("[]TopicData", default=[])

    throttle_time_ms: int = wire("int32", default=0)
    transaction_states: list[DescribeTransactionsResponse.TransactionState] = wire(
        "[]TransactionState", default=[]
    )
