"""ElectLeaders: let preferred, or any living, replicas lead partitions (KIP-183, KIP-460).

v0: preferred elections only.
v1: request gains election_type; response gains error_code.
v2: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(Message):
    """The partitions, null for all; the type is 0 for preferred, 1 for unclean."""

    class TopicPartitions(Struct):
        topic: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    election_type: int = wire("int8", "1+", default=0)
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = wire(
        "[]TopicPartitions", nullable="0+", default=[]
    )
    timeout_ms: int = wire("int32", default=60000)


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(Message):
    class PartitionResult(Struct):
        partition_id: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default="")

    class ReplicaElectionResult(Struct):
        topic: str = wire("string", default="")
        partition_result: list[ElectLeadersResponse.PartitionResult] = wire(
            "[]PartitionResult", default=[]
        )

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", "1+", default=0)
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = wire(
        "[]ReplicaElectionResult", default=[]
    )
