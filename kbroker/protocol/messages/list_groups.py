"""ListGroups: the groups that a broker coordinates (KIP-518, KIP-848).

v1: response gains throttle_time_ms.
v2: Same bytes as v1.
v3: flexible.
v4: request gains states_filter; response gains group_state.
v5: request gains types_filter; response gains group_type.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Message):
    """Filters by states and types; empty means any."""

    states_filter: list[str] = wire("[]string", "4+", default=[])
    types_filter: list[str] = wire("[]string", "5+", default=[])


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(Message):
    class ListedGroup(Struct):
        group_id: str = wire("string", default="")
        protocol_type: str = wire("string", default="")
        group_state: str = wire("string", "4+", default="")
        group_type: str = wire("string", "5+", default="")

    throttle_time_ms: int = wire("int32", "1+", default=0)
    error_code: int = wire("int16", default=0)
    groups: list[ListGroupsResponse.ListedGroup] = wire("[]ListedGroup", default=[])
