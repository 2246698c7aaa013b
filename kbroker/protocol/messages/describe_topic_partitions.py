"""DescribeTopicPartitions: topics and their partitions, page by page (KIP-966).

v0: flexible.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest(Message):
    class TopicRequest(Struct):
        name: str = wire("string", default="")

    class Cursor(Struct):
        topic_name: str = wire("string", default="")
        partition_index: int = wire("int32", default=0)

    topics: list[DescribeTopicPartitionsRequest.TopicRequest] = wire("[]TopicRequest", default=[])
    response_partition_limit: int = wire("int32", default=2000)
    cursor: DescribeTopicPartitionsRequest.Cursor | None = wire(
        "Cursor", nullable="0+", default=None
    )


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse(Message):
    class DescribeTopicPartitionsResponsePartition(Struct):
        error_code: int = wire("int16", default=0)
        partition_index: int = wire("int32", default=0)
        leader_id: int = wire("int32", default=0)
        leader_epoch: int = wire("int32", default=-1)
        replica_nodes: list[int] = wire("[]int32", default=[])
        isr_nodes: list[int] = wire("[]int32", default=[])
        eligible_leader_replicas: list[int] | None = wire("[]int32", nullable="0+", default=None)
        last_known_elr: list[int] | None = wire("[]int32", nullable="0+", default=None)
        offline_replicas: list[int] = wire("[]int32", default=[])

    class DescribeTopicPartitionsResponseTopic(Struct):
        error_code: int = wire("int16", default=0)
        name: str | None = wire("string", nullable="0+", default="")
        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        is_internal: bool = wire("bool", default=False)
        partitions: list[
            DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
        ] = wire("[]DescribeTopicPartitionsResponsePartition", default=[])
        topic_authorized_operations: int = wire("int32", default=-2147483648)

    class Cursor(Struct):
        topic_name: str = wire("string", default="")
        partition_index: int = wire("int32", default=0)

    throttle_time_ms: int = wire("int32", default=0)
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = wire(
        "[]DescribeTopicPartitionsResponseTopic", default=[]
    )
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None = wire(
        "Cursor", nullable="0+", default=None
    )
