"""BrokerHeartbeat: a broker tells the metadata quorum that it lives (KIP-631, KIP-858, KIP-1066).

v0: flexible.
v1: request gains offline_log_dirs.
v2: request gains cordoned_log_dirs.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.protocol.schema import Message, message, wire


@message(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatRequest(Message):
    """The broker, how far it has come, and what it wants."""

    broker_id: int = wire("int32", default=0)
    broker_epoch: int = wire("int64", default=-1)
    current_metadata_offset: int = wire("int64", default=0)
    want_fence: bool = wire("bool", default=False)
    want_shut_down: bool = wire("bool", default=False)
    offline_log_dirs: list[UUID] = wire("[]uuid", "1+", tag=0, default=[])
    cordoned_log_dirs: list[UUID] | None = wire("[]uuid", "2+", nullable="2+", tag=1, default=None)


@message(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatResponse(Message):
    """What the controller lets the broker do."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    is_caught_up: bool = wire("bool", default=False)
    is_fenced: bool = wire("bool", default=True)
    should_shut_down: bool = wire("bool", default=False)
