"""OffsetDelete: forget offsets that a group has stored (KIP-496)."""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=47, versions="0")
class OffsetDeleteRequest(Message):
    """The group, and the partitions whose offsets go."""

    class OffsetDeleteRequestPartition(Struct):
        partition_index: int = wire("int32", default=0)

    class OffsetDeleteRequestTopic(Struct):
        """Partitions of one topic."""

        name: str = wire("string", default="")
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = wire(
            "[]OffsetDeleteRequestPartition", default=[]
        )

    group_id: str = wire("string", default="")
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = wire(
        "[]OffsetDeleteRequestTopic", default=[]
    )


@message(key=47, versions="0")
class OffsetDeleteResponse(Message):
    """The result for each partition."""

    class OffsetDeleteResponsePartition(Struct):
        """The answer for one partition."""

        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)

    class OffsetDeleteResponseTopic(Struct):
        """The answers for one topic."""

        name: str = wire("string", default="")
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = wire(
            "[]OffsetDeleteResponsePartition", default=[]
        )

    error_code: int = wire("int16", default=0)
    throttle_time_ms: int = wire("int32", default=0)
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = wire(
        "[]OffsetDeleteResponseTopic", default=[]
    )
