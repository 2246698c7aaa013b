"""OffsetCommit: store the offsets that a consumer group has reached (KIP-211, KIP-848).

v0: Offsets go to ZooKeeper.
v1: request gains generation_id_or_member_epoch, member_id, commit_timestamp. Offsets go to the
    coordinator.
v2: request gains retention_time_ms; request drops commit_timestamp.
v3: response gains throttle_time_ms.
v4: Same bytes as v3.
v5: request drops retention_time_ms.
v6: request gains committed_leader_epoch.
v7: request gains group_instance_id.
v8: flexible.
v9: Same bytes as v8; members of the consumer protocol.
v10: request gains topic_id; request drops name; response gains topic_id; response drops name.
    Topics go by id.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=8, versions="0-10", flexible="8+")
class OffsetCommitRequest(Message):
    class OffsetCommitRequestPartition(Struct):
        """The offset of one partition, with what the consumer wants to remember."""

        partition_index: int = wire("int32", default=0, varies=True)
        committed_offset: int = wire("int64", default=0, varies=True)
        committed_leader_epoch: int = wire("int32", "6+", default=-1, varies=True)
        commit_timestamp: int = wire("int64", "1", default=-1, varies=True)
        committed_metadata: str | None = wire("string", nullable="0+", default="")

    class OffsetCommitRequestTopic(Struct):
        name: str = wire("string", "0-9", default="")
        topic_id: UUID = wire("uuid", "10+", default=ZERO_UUID)
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = wire(
            "[]OffsetCommitRequestPartition", default=[]
        )

    group_id: str = wire("string", default="")
    generation_id_or_member_epoch: int = wire("int32", "1+", default=-1)
    member_id: str = wire("string", "1+", default="")
    group_instance_id: str | None = wire("string", "7+", nullable="7+", default=None)
    retention_time_ms: int = wire("int64", "2-4", default=-1)
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = wire(
        "[]OffsetCommitRequestTopic", default=[]
    )


@message(key=8, versions="0-10", flexible="8+")
class OffsetCommitResponse(Message):
    class OffsetCommitResponsePartition(Struct):
        partition_index: int = wire("int32", default=0, varies=True)
        error_code: int = wire("int16", default=0)

    class OffsetCommitResponseTopic(Struct):
        name: str = wire("string", "0-9", default="")
        topic_id: UUID = wire("uuid", "10+", default=ZERO_UUID)
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = wire(
            "[]OffsetCommitResponsePartition", default=[]
        )

    throttle_time_ms: int = wire("int32", "3+", default=0)
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = wire(
        "[]OffsetCommitResponseTopic", default=[]
    )
