"""DescribeGroups: state and members of groups (KIP-345, KIP-430, KIP-1043).

v1: response gains throttle_time_ms.
v2: Same bytes as v1.
v3: request gains include_authorized_operations; response gains authorized_operations.
v4: response gains group_instance_id.
v5: flexible.
v6: response gains error_message.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest(Message):
    groups: list[str] = wire("[]string", default=[])
    include_authorized_operations: bool = wire("bool", "3+", default=False)


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse(Message):
    class DescribedGroupMember(Struct):
        member_id: str = wire("string", default="")
        group_instance_id: str | None = wire("string", "4+", nullable="4+", default=None)
        client_id: str = wire("string", default="")
        client_host: str = wire("string", default="")
        member_metadata: bytes = wire("bytes", default=b"")
        member_assignment: bytes = wire("bytes", default=b"")

    class DescribedGroup(Struct):
        """A group; an unknown one is Dead, or GROUP_ID_NOT_FOUND from v6 on."""

        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", "6+", nullable="6+", default=None)
        group_id: str = wire("string", default="")
        group_state: str = wire("string", default="")
        protocol_type: str = wire("string", default="")
        protocol_data: str = wire("string", default="")
        members: list[DescribeGroupsResponse.DescribedGroupMember] = wire(
            "[]DescribedGroupMember", default=[]
        )
        authorized_operations: int = wire("int32", "3+", default=-2147483648)

    throttle_time_ms: int = wire("int32", "1+", default=0)
    groups: list[DescribeGroupsResponse.DescribedGroup] = wire("[]DescribedGroup", default=[])
