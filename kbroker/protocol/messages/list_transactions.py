"""ListTransactions: the transactions that a coordinator knows (KIP-664, KIP-994, KIP-1152).

v0: flexible.
v1: request gains duration_filter.
v2: request gains transactional_id_pattern.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=66, versions="0-2", flexible="0+", served="0-1")
class ListTransactionsRequest(Message):
    """Filters; empty ones and a duration of -1 ms let all pass, a pattern is RE2."""

    state_filters: list[str] = wire("[]string", default=[])
    producer_id_filters: list[int] = wire("[]int64", default=[])
    duration_filter: int = wire("int64", "1+", default=-1)
    transactional_id_pattern: str | None = wire("string", "2+", nullable="2+", default=None)


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse(Message):
    class TransactionState(Struct):
        transactional_id: str = wire("string", default="")
        producer_id: int = wire("int64", default=0)
        transaction_state: str = wire("string", default="")

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    unknown_state_filters: list[str] = wire("[]string", default=[])
    transaction_states: list[ListTransactionsResponse.TransactionState] = wire(
        "[]TransactionState", default=[]
    )
