"""WriteShareGroupState: keep the state of share partitions, for their leaders (KIP-932, KIP-1226).

v0: flexible.
v1: request gains delivery_complete_count.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest(Message):
    """The state of partitions of a group."""

    class StateBatch(Struct):
        """A range of offsets: 0 available, 2 acknowledged, 4 archived."""

        first_offset: int = wire("int64", default=0)
        last_offset: int = wire("int64", default=0)
        delivery_state: int = wire("int8", default=0)
        delivery_count: int = wire("int16", default=0)

    class PartitionData(Struct):
        """The changes of one partition; start offset -1 leaves it as it is."""

        partition: int = wire("int32", default=0)
        state_epoch: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)
        start_offset: int = wire("int64", default=0)
        delivery_complete_count: int = wire("int32", "1+", default=-1)
        state_batches: list[WriteShareGroupStateRequest.StateBatch] = wire(
            "[]StateBatch", default=[]
        )

    class WriteStateData(Struct):
        """Partitions of one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[WriteShareGroupStateRequest.PartitionData] = wire(
            "[]PartitionData", default=[]
        )

    group_id: str = wire("string", default="")
    topics: list[WriteShareGroupStateRequest.WriteStateData] = wire("[]WriteStateData", default=[])


@message(key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse(Message):
    """The result for each partition."""

    class PartitionResult(Struct):
        """The answer for one partition."""

        partition: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)

    class WriteStateResult(Struct):
        """The answers for one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[WriteShareGroupStateResponse.PartitionResult] = wire(
            "[]PartitionResult", default=[]
        )

    results: list[WriteShareGroupStateResponse.WriteStateResult] = wire(
        "[]WriteStateResult", default=[]
    )
