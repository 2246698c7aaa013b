"""SyncGroup: the leader hands out assignments, each member gets its own (KIP-345, KIP-559).

v1: response gains throttle_time_ms.
v2: Same bytes as v1.
v3: request gains group_instance_id.
v4: flexible.
v5: request gains protocol_type, protocol_name; response gains protocol_type, protocol_name.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Message):
    """A member, and from the leader the assignments of all."""

    class SyncGroupRequestAssignment(Struct):
        member_id: str = wire("string", default="")
        assignment: bytes = wire("bytes", default=b"")

    group_id: str = wire("string", default="")
    generation_id: int = wire("int32", default=0)
    member_id: str = wire("string", default="")
    group_instance_id: str | None = wire("string", "3+", nullable="3+", default=None)
    protocol_type: str | None = wire("string", "5+", nullable="5+", default=None)
    protocol_name: str | None = wire("string", "5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = wire(
        "[]SyncGroupRequestAssignment", default=[]
    )


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Message):
    throttle_time_ms: int = wire("int32", "1+", default=0)
    error_code: int = wire("int16", default=0)
    protocol_type: str | None = wire("string", "5+", nullable="5+", default=None)
    protocol_name: str | None = wire("string", "5+", nullable="5+", default=None)
    assignment: bytes = wire("bytes", default=b"")
