"""AlterPartitionReassignments: begin, change or call off moves of partitions (KIP-455, KIP-860).

v0: flexible.
v1: request gains allow_replication_factor_change; response gains allow_replication_factor_change.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=45, versions="0-1", flexible="0+", served="0")
class AlterPartitionReassignmentsRequest(Message):
    class ReassignablePartition(Struct):
        """One partition; null replicas call off its move."""

        partition_index: int = wire("int32", default=0)
        replicas: list[int] | None = wire("[]int32", nullable="0+", default=None)

    class ReassignableTopic(Struct):
        name: str = wire("string", default="")
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = wire(
            "[]ReassignablePartition", default=[]
        )

    timeout_ms: int = wire("int32", default=60000)
    allow_replication_factor_change: bool = wire("bool", "1+", default=True)
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = wire(
        "[]ReassignableTopic", default=[]
    )


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Message):
    class ReassignablePartitionResponse(Struct):
        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default="")

    class ReassignableTopicResponse(Struct):
        name: str = wire("string", default="")
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = wire(
            "[]ReassignablePartitionResponse", default=[]
        )

    throttle_time_ms: int = wire("int32", default=0)
    allow_replication_factor_change: bool = wire("bool", "1+", default=True)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default="")
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = wire(
        "[]ReassignableTopicResponse", default=[]
    )
