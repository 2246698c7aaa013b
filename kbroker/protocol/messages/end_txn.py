"""EndTxn: a producer commits or aborts its transaction (KIP-98, KIP-890).

v1: Same bytes as v0.
v2: Same bytes as v1; the code PRODUCER_FENCED.
v3: flexible.
v4: Same bytes as v3; the code TRANSACTION_ABORTABLE.
v5: response gains producer_id, producer_epoch. Every transaction gets an epoch of its own.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, message, wire


@message(key=26, versions="0-5", flexible="3+")
class EndTxnRequest(Message):
    transactional_id: str = wire("string", default="")
    producer_id: int = wire("int64", default=0)
    producer_epoch: int = wire("int16", default=0)
    committed: bool = wire("bool", default=False)


@message(key=26, versions="0-5", flexible="3+")
class EndTxnResponse(Message):
    """The producer's id and epoch from now on; -1 if they stay."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    producer_id: int = wire("int64", "5+", default=-1)
    producer_epoch: int = wire("int16", "5+", default=-1)
