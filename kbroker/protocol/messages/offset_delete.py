"""OffsetDelete: forget offsets that a group has stored (KIP-496)."""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=47, versions="0")
class OffsetDeleteRequest(Message):
    class OffsetDeleteRequestPartition(Struct):
        partition_index: int = wire("int32", default=0)

    class OffsetDeleteRequestTopic(Struct):
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
    class OffsetDeleteResponsePartition(Struct):
        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)

    class OffsetDeleteResponseTopic(Struct):
        name: str = wire("string", default="")
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = wire(
            "[]OffsetDeleteResponsePartition", default=[]
        )

    error_code: int = wire("int16", default=0)
    throttle_time_ms: int = wire("int32", default=0)
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = wire(
        "[]OffsetDeleteResponseTopic", default=[]
    )
