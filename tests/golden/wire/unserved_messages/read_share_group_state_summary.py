"""ReadShareGroupStateSummary: where share partitions start, without their batches (KIP-932,
KIP-1226).

v0: flexible.
v1: response gains delivery_complete_count.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest(Message):
    """The partitions of a group."""

    class PartitionData(Struct):
        """One partition and the epoch of its leader."""

        partition: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)

    class ReadStateSummaryData(Struct):
        """Partitions of one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = wire(
            "[]PartitionData", default=[]
        )

    group_id: str = wire("string", default="")
    topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = wire(
        "[]ReadStateSummaryData", default=[]
    )


@message(key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse(Message):
    """The summaries, by partition."""

    class PartitionResult(Struct):
        """The summary of one partition."""

        partition: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)
        state_epoch: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=0)
        start_offset: int = wire("int64", default=0)
        delivery_complete_count: int = wire("int32", "1+", default=-1)

    class ReadStateSummaryResult(Struct):
        """The answers for one topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = wire(
            "[]PartitionResult", default=[]
        )

    results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = wire(
        "[]ReadStateSummaryResult", default=[]
    )
