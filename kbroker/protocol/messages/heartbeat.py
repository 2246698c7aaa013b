"""Heartbeat: a group member is alive (KIP-345).

v1: response gains throttle_time_ms.
v2: Same bytes as v1.
v3: request gains group_instance_id.
v4: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, message, wire


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Message):
    group_id: str = wire("string", default="")
    generation_id: int = wire("int32", default=0)
    member_id: str = wire("string", default="")
    group_instance_id: str | None = wire("string", "3+", nullable="3+", default=None)


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(Message):
    throttle_time_ms: int = wire("int32", "1+", default=0)
    error_code: int = wire("int16", default=0)
