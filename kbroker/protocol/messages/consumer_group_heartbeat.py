"""ConsumerGroupHeartbeat: a member of a consumer group of the new protocol (KIP-848).

v0: flexible.
v1: request gains subscribed_topic_regex. Members choose their own id.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Message):
    """The member; what has not changed since the last time is null or -1. Epoch 0 joins, -1 leaves,
    -2 leaves for a while.
    """

    class TopicPartitions(Struct):
        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[int] = wire("[]int32", default=[])

    group_id: str = wire("string", default="")
    member_id: str = wire("string", default="")
    member_epoch: int = wire("int32", default=0)
    instance_id: str | None = wire("string", nullable="0+", default=None)
    rack_id: str | None = wire("string", nullable="0+", default=None)
    rebalance_timeout_ms: int = wire("int32", default=-1)
    subscribed_topic_names: list[str] | None = wire("[]string", nullable="0+", default=None)
    subscribed_topic_regex: str | None = wire("string", "1+", nullable="1+", default=None)
    server_assignor: str | None = wire("string", nullable="0+", default=None)
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = wire(
        "[]TopicPartitions", nullable="0+", default=None
    )


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Message):
    class TopicPartitions(Struct):
        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[int] = wire("[]int32", default=[])

    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = wire(
            "[]TopicPartitions", default=[]
        )

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default=None)
    member_id: str | None = wire("string", nullable="0+", default=None)
    member_epoch: int = wire("int32", default=0)
    heartbeat_interval_ms: int = wire("int32", default=0)
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None = wire(
        "Assignment", nullable="0+", default=None
    )
