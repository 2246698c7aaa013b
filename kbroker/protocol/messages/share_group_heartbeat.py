"""ShareGroupHeartbeat: a member of a share group (KIP-932).

v1: flexible. The first stable version.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest(Message):
    """The member; what has not changed since the last time is null. Epoch 0 joins, -1 leaves."""

    group_id: str = wire("string", default="")
    member_id: str = wire("string", default="")
    member_epoch: int = wire("int32", default=0)
    rack_id: str | None = wire("string", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = wire("[]string", nullable="0+", default=None)


@message(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse(Message):
    class TopicPartitions(Struct):
        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[int] = wire("[]int32", default=[])

    class Assignment(Struct):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = wire(
            "[]TopicPartitions", default=[]
        )

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default=None)
    member_id: str | None = wire("string", nullable="0+", default=None)
    member_epoch: int = wire("int32", default=0)
    heartbeat_interval_ms: int = wire("int32", default=0)
    assignment: ShareGroupHeartbeatResponse.Assignment | None = wire(
        "Assignment", nullable="0+", default=None
    )
