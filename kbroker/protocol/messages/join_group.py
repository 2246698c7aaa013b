"""JoinGroup: become a member of a group and take part in its rebalance (KIP-62, KIP-345, KIP-394,
KIP-800, KIP-814).

v1: request gains rebalance_timeout_ms. Session and rebalance timeouts are two things.
v2: response gains throttle_time_ms.
v3: Same bytes as v2.
v4: Same bytes as v3; MEMBER_ID_REQUIRED for a member without an id.
v5: request gains group_instance_id; response gains group_instance_id.
v6: flexible.
v7: response gains protocol_type; response may have null protocol_name.
v8: request gains reason.
v9: response gains skip_assignment.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Message):
    class JoinGroupRequestProtocol(Struct):
        """A protocol and what the member says in it (a subscription, for consumers)."""

        name: str = wire("string", default="")
        metadata: bytes = wire("bytes", default=b"")

    group_id: str = wire("string", default="")
    session_timeout_ms: int = wire("int32", default=0)
    rebalance_timeout_ms: int = wire("int32", "1+", default=-1)
    member_id: str = wire("string", default="")
    group_instance_id: str | None = wire("string", "5+", nullable="5+", default=None)
    protocol_type: str = wire("string", default="")
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = wire(
        "[]JoinGroupRequestProtocol", default=[]
    )
    reason: str | None = wire("string", "8+", nullable="8+", default=None)


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Message):
    """The generation, its leader, and for the leader its members."""

    class JoinGroupResponseMember(Struct):
        member_id: str = wire("string", default="")
        group_instance_id: str | None = wire("string", "5+", nullable="5+", default=None)
        metadata: bytes = wire("bytes", default=b"")

    throttle_time_ms: int = wire("int32", "2+", default=0)
    error_code: int = wire("int16", default=0)
    generation_id: int = wire("int32", default=-1)
    protocol_type: str | None = wire("string", "7+", nullable="7+", default=None)
    protocol_name: str | None = wire("string", nullable="7+", default="")
    leader: str = wire("string", default="")
    skip_assignment: bool = wire("bool", "9+", default=False)
    member_id: str = wire("string", default="")
    members: list[JoinGroupResponse.JoinGroupResponseMember] = wire(
        "[]JoinGroupResponseMember", default=[]
    )
