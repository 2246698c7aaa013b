"""AllocateProducerIds: a broker asks the controller for a block of producer ids (KIP-730).

v0: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, message, wire


@message(key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest(Message):
    broker_id: int = wire("int32", default=0)
    broker_epoch: int = wire("int64", default=-1)


@message(key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse(Message):
    """The first id of the block and how many there are."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    producer_id_start: int = wire("int64", default=0)
    producer_id_len: int = wire("int32", default=0)
