"""ReadShareGroupState: the state of share partitions, for their leaders (KIP-932).

v0: flexible.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest(Message):
    """The partitions of a group."""

    class PartitionData(Struct):
        """One partition and the epoch of its leader."""

        partition: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)

    class ReadStateData(Struct):
        """Partitions of one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[ReadShareGroupStateRequest.PartitionData] = wire(
            "[]PartitionData", default=[]
        )

    group_id: str = wire("string", default="")
    topics: list[ReadShareGroupStateRequest.ReadStateData] = wire("[]ReadStateData", default=[])


@message(key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse(Message):
    """The state, by partition."""

    class StateBatch(Struct):
        """A range of offsets: 0 available, 2 acknowledged, 4 archived."""

        first_offset: int = wire("int64", default=0)
        last_offset: int = wire("int64", default=0)
        delivery_state: int = wire("int8", default=0)
        delivery_count: int = wire("int16", default=0)

    class PartitionResult(Struct):
        """The state of one partition."""

        partition: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)
        state_epoch: int = wire("int32", default=0)
        start_offset: int = wire("int64", default=0)
        state_batches: list[ReadShareGroupStateResponse.StateBatch] = wire(
            "[]StateBatch", default=[]
        )

    class ReadStateResult(Struct):
        """The answers for one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[ReadShareGroupStateResponse.PartitionResult] = wire(
            "[]PartitionResult", default=[]
        )

    results: list[ReadShareGroupStateResponse.ReadStateResult] = wire(
        "[]ReadStateResult", default=[]
    )
