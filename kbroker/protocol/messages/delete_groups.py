"""DeleteGroups: delete groups that have no members (KIP-229, KIP-1043).

v1: Same bytes as v0.
v2: flexible.
v3: response gains error_message.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=42, versions="0-3", flexible="2+")
class DeleteGroupsRequest(Message):
    groups_names: list[str] = wire("[]string", default=[])


@message(key=42, versions="0-3", flexible="2+")
class DeleteGroupsResponse(Message):
    class DeletableGroupResult(Struct):
        group_id: str = wire("string", default="")
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", "3+", nullable="3+", default=None)

    throttle_time_ms: int = wire("int32", default=0)
    results: list[DeleteGroupsResponse.DeletableGroupResult] = wire(
        "[]DeletableGroupResult", default=[]
    )
