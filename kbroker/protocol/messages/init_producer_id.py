"""InitProducerId: a producer id and epoch for idempotent and transactional producers (KIP-98,
KIP-360, KIP-939).

v1: Same bytes as v0.
v2: flexible.
v3: request gains producer_id, producer_epoch.
v4: Same bytes as v3; the code PRODUCER_FENCED.
v5: Same bytes as v4; the code TRANSACTION_ABORTABLE.
v6: request gains enable2_pc, keep_prepared_txn; response gains ongoing_txn_producer_id,
    ongoing_txn_producer_epoch.

v6 is not yet stable in 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kbroker.protocol.schema import Message, message, wire


@message(key=22, versions="0-6", flexible="2+", served="0-5")
class InitProducerIdRequest(Message):
    """A transactional id, or null for an idempotent producer."""

    error_values: ClassVar[Mapping[str, Any]] = {"producer_id": -1, "producer_epoch": -1}

    transactional_id: str | None = wire("string", nullable="0+", default="")
    transaction_timeout_ms: int = wire("int32", default=0)
    producer_id: int = wire("int64", "3+", default=-1)
    producer_epoch: int = wire("int16", "3+", default=-1)
    enable2_pc: bool = wire("bool", "6+", default=False)
    keep_prepared_txn: bool = wire("bool", "6+", default=False)


@message(key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse(Message):
    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    producer_id: int = wire("int64", default=-1)
    producer_epoch: int = wire("int16", default=0)
    ongoing_txn_producer_id: int = wire("int64", "6+", default=-1)
    ongoing_txn_producer_epoch: int = wire("int16", "6+", default=-1)
