"""AddOffsetsToTxn: a producer adds the offsets of a group to its transaction (KIP-98, KIP-890).

v1: Same bytes as v0.
v2: Same bytes as v1; the code PRODUCER_FENCED.
v3: flexible.
v4: Same bytes as v3; the code TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, message, wire


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Message):
    transactional_id: str = wire("string", default="")
    producer_id: int = wire("int64", default=0)
    producer_epoch: int = wire("int16", default=0)
    group_id: str = wire("string", default="")


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
