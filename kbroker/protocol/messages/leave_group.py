"""LeaveGroup: members leave their group (KIP-345, KIP-800).

v1: response gains throttle_time_ms.
v2: Same bytes as v1.
v3: request gains members; request drops member_id; response gains members.
v4: flexible.
v5: request gains reason.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Message):
    """The member, or from v3 on the members, that leave."""

    class MemberIdentity(Struct):
        """A member that leaves, by member id or by instance id."""

        member_id: str = wire("string", "3+", default="")
        group_instance_id: str | None = wire("string", "3+", nullable="3+", default=None)
        reason: str | None = wire("string", "5+", nullable="5+", default=None)

    group_id: str = wire("string", default="")
    member_id: str = wire("string", "0-2", default="")
    members: list[LeaveGroupRequest.MemberIdentity] = wire("[]MemberIdentity", "3+", default=[])


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Message):
    class MemberResponse(Struct):
        member_id: str = wire("string", "3+", default="")
        group_instance_id: str | None = wire("string", "3+", nullable="3+", default="")
        error_code: int = wire("int16", "3+", default=0)

    throttle_time_ms: int = wire("int32", "1+", default=0)
    error_code: int = wire("int16", default=0)
    members: list[LeaveGroupResponse.MemberResponse] = wire("[]MemberResponse", "3+", default=[])
