"""DeleteShareGroupState: forget the state of share partitions (KIP-932).

v0: flexible.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest(Message):
    """The partitions of a group."""

    class PartitionData(Struct):
        partition: int = wire("int32", default=0)

    class DeleteStateData(Struct):
        """Partitions of one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[DeleteShareGroupStateRequest.PartitionData] = wire(
            "[]PartitionData", default=[]
        )

    group_id: str = wire("string", default="")
    topics: list[DeleteShareGroupStateRequest.DeleteStateData] = wire(
        "[]DeleteStateData", default=[]
    )


@message(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse(Message):
    """The result for each partition."""

    class PartitionResult(Struct):
        """The answer for one partition."""

        partition: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)

    class DeleteStateResult(Struct):
        """The answers for one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[DeleteShareGroupStateResponse.PartitionResult] = wire(
            "[]PartitionResult", default=[]
        )

    results: list[DeleteShareGroupStateResponse.DeleteStateResult] = wire(
        "[]DeleteStateResult", default=[]
    )
