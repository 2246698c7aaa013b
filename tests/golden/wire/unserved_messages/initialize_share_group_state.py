"""InitializeShareGroupState: begin to keep the state of share partitions (KIP-932).

v0: flexible.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest(Message):
    """The partitions of a group and where they start."""

    class PartitionData(Struct):
        """One partition; start offset -1 leaves it open."""

        partition: int = wire("int32", default=0)
        state_epoch: int = wire("int32", default=0)
        start_offset: int = wire("int64", default=0)

    class InitializeStateData(Struct):
        """Partitions of one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[InitializeShareGroupStateRequest.PartitionData] = wire(
            "[]PartitionData", default=[]
        )

    group_id: str = wire("string", default="")
    topics: list[InitializeShareGroupStateRequest.InitializeStateData] = wire(
        "[]InitializeStateData", default=[]
    )


@message(key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse(Message):
    """The result for each partition."""

    class PartitionResult(Struct):
        """The answer for one partition."""

        partition: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)

    class InitializeStateResult(Struct):
        """The answers for one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[InitializeShareGroupStateResponse.PartitionResult] = wire(
            "[]PartitionResult", default=[]
        )

    results: list[InitializeShareGroupStateResponse.InitializeStateResult] = wire(
        "[]InitializeStateResult", default=[]
    )
