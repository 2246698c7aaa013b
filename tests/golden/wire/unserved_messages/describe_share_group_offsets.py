"""DescribeShareGroupOffsets: where share groups stand (KIP-932, KIP-1226).

v0: flexible.
v1: response gains lag.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest(Message):
    """The groups asked about."""

    class DescribeShareGroupOffsetsRequestTopic(Struct):
        """Partitions of one topic."""

        topic_name: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    class DescribeShareGroupOffsetsRequestGroup(Struct):
        """One group; null topics mean all."""

        group_id: str = wire("string", default="")
        topics: (
            list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None
        ) = wire("[]DescribeShareGroupOffsetsRequestTopic", nullable="0+", default=[])

    groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup] = wire(
        "[]DescribeShareGroupOffsetsRequestGroup", default=[]
    )


@message(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(Message):
    """The offsets, by group."""

    class DescribeShareGroupOffsetsResponsePartition(Struct):
        """The start of one partition; -1 if unknown."""

        partition_index: int = wire("int32", default=0)
        start_offset: int = wire("int64", default=0)
        leader_epoch: int = wire("int32", default=0)
        lag: int = wire("int64", "1+", default=-1)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)

    class DescribeShareGroupOffsetsResponseTopic(Struct):
        """Offsets of one topic."""

        topic_name: str = wire("string", default="")
        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[
            DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition
        ] = wire("[]DescribeShareGroupOffsetsResponsePartition", default=[])

    class DescribeShareGroupOffsetsResponseGroup(Struct):
        """Offsets of one group."""

        group_id: str = wire("string", default="")
        topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = (
            wire("[]DescribeShareGroupOffsetsResponseTopic", default=[])
        )
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)

    throttle_time_ms: int = wire("int32", default=0)
    groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup] = wire(
        "[]DescribeShareGroupOffsetsResponseGroup", default=[]
    )
