"""UnregisterBroker: the metadata quorum forgets a broker (KIP-631).

v0: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, message, wire


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest(Message):
    """The broker to forget."""

    broker_id: int = wire("int32", default=0)


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse(Message):
    """Whether it is forgotten."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default="")
