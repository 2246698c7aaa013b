"""AlterShareGroupOffsets: set the offsets from which an empty share group starts (KIP-932).

v0: flexible.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest(Message):
    class AlterShareGroupOffsetsRequestPartition(Struct):
        """The offset of one partition."""

        partition_index: int = wire("int32", default=0)
        start_offset: int = wire("int64", default=0)

    class AlterShareGroupOffsetsRequestTopic(Struct):
        """Offsets of one topic."""

        topic_name: str = wire("string", default="")
        partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = (
            wire("[]AlterShareGroupOffsetsRequestPartition", default=[])
        )

    group_id: str = wire("string", default="")
    topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic] = wire(
        "[]AlterShareGroupOffsetsRequestTopic", default=[]
    )


@message(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse(Message):
    """The result for each partition."""

    class AlterShareGroupOffsetsResponsePartition(Struct):
        """The answer for one partition."""

        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)

    class AlterShareGroupOffsetsResponseTopic(Struct):
        """The answers for one topic."""

        topic_name: str = wire("string", default="")
        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = (
            wire("[]AlterShareGroupOffsetsResponsePartition", default=[])
        )

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] = wire(
        "[]AlterShareGroupOffsetsResponseTopic", default=[]
    )
