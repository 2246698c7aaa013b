"""ListOffsets: the offset for a timestamp, or the first, last and other special offsets of
partitions (KIP-79).

v1: request drops max_num_offsets; response gains timestamp, offset; response drops
    old_style_offsets.
v2: request gains isolation_level; response gains throttle_time_ms.
v3: Same bytes as v2.
v4: request gains current_leader_epoch; response gains leader_epoch.
v5: Same bytes as v4; the code OFFSET_NOT_AVAILABLE.
v6: flexible.
v7: Same bytes as v6; largest timestamp, -3 (KIP-734).
v8: Same bytes as v7; earliest local offset, -4 (KIP-405).
v9: Same bytes as v8; last tiered offset, -5 (KIP-1005).
v10: request gains timeout_ms.
v11: Same bytes as v10; earliest offset that waits for tiering, -6 (KIP-1023).
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire

MAX_TIMESTAMP = -3


@message(key=2, versions="0-11", flexible="6+")
class ListOffsetsRequest(Message):
    """Partitions, each with the time whose offset is asked for."""

    class ListOffsetsPartition(Struct):
        """A partition and the time to look up (-1 latest, -2 earliest, -3 largest timestamp)."""

        partition_index: int = wire("int32", default=0)
        current_leader_epoch: int = wire("int32", "4+", default=-1)
        timestamp: int = wire("int64", default=0)
        max_num_offsets: int = wire("int32", "0", default=1)

    class ListOffsetsTopic(Struct):
        name: str = wire("string", default="")
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = wire(
            "[]ListOffsetsPartition", default=[]
        )

    replica_id: int = wire("int32", default=0)
    isolation_level: int = wire("int8", "2+", default=0)
    topics: list[ListOffsetsRequest.ListOffsetsTopic] = wire("[]ListOffsetsTopic", default=[])
    timeout_ms: int = wire("int32", "10+", default=0)

    @property
    def lowest_version(self) -> int:
        """The first that knows what is asked for: before version 7, -3 is a time like others."""
        moments = (each.timestamp for topic in self.topics for each in topic.partitions)
        return 7 if MAX_TIMESTAMP in moments else 0


@message(key=2, versions="0-11", flexible="6+")
class ListOffsetsResponse(Message):
    class ListOffsetsPartitionResponse(Struct):
        """The offset found in one partition; -1 when there is none."""

        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        old_style_offsets: list[int] = wire("[]int64", "0", default=[])
        timestamp: int = wire("int64", "1+", default=-1)
        offset: int = wire("int64", "1+", default=-1)
        leader_epoch: int = wire("int32", "4+", default=-1)

    class ListOffsetsTopicResponse(Struct):
        name: str = wire("string", default="")
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = wire(
            "[]ListOffsetsPartitionResponse", default=[]
        )

    throttle_time_ms: int = wire("int32", "2+", default=0)
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = wire(
        "[]ListOffsetsTopicResponse", default=[]
    )
