"""OffsetForLeaderEpoch: where a leader epoch ended in the leader's log (KIP-101, KIP-320).

v1: response gains leader_epoch (KIP-279).
v2: request gains current_leader_epoch; response gains throttle_time_ms.
v3: request gains replica_id.
v4: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest(Message):
    class OffsetForLeaderPartition(Struct):
        """A partition, the epoch that the asker believes in force, and the one it asks for."""

        partition: int = wire("int32", default=0)
        current_leader_epoch: int = wire("int32", "2+", default=-1)
        leader_epoch: int = wire("int32", default=0)

    class OffsetForLeaderTopic(Struct):
        topic: str = wire("string", default="")
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = wire(
            "[]OffsetForLeaderPartition", default=[]
        )

    replica_id: int = wire("int32", "3+", default=-2)
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = wire(
        "[]OffsetForLeaderTopic", default=[]
    )


@message(key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse(Message):
    class EpochEndOffset(Struct):
        """The largest epoch not above the one asked for, and its end; -1 when it is not known."""

        error_code: int = wire("int16", default=0)
        partition: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", "1+", default=-1)
        end_offset: int = wire("int64", default=-1)

    class OffsetForLeaderTopicResult(Struct):
        topic: str = wire("string", default="")
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = wire(
            "[]EpochEndOffset", default=[]
        )

    throttle_time_ms: int = wire("int32", "2+", default=0)
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = wire(
        "[]OffsetForLeaderTopicResult", default=[]
    )
