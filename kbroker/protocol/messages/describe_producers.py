"""DescribeProducers: the producers that a partition remembers (KIP-664).

v0: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=61, versions="0", flexible="0+")
class DescribeProducersRequest(Message):
    class TopicRequest(Struct):
        name: str = wire("string", default="")
        partition_indexes: list[int] = wire("[]int32", default=[])

    topics: list[DescribeProducersRequest.TopicRequest] = wire("[]TopicRequest", default=[])


@message(key=61, versions="0", flexible="0+")
class DescribeProducersResponse(Message):
    class ProducerState(Struct):
        """The state of one producer; -1 if unknown."""

        producer_id: int = wire("int64", default=0)
        producer_epoch: int = wire("int32", default=0)
        last_sequence: int = wire("int32", default=-1)
        last_timestamp: int = wire("int64", default=-1)
        coordinator_epoch: int = wire("int32", default=0)
        current_txn_start_offset: int = wire("int64", default=-1)

    class PartitionResponse(Struct):
        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)
        active_producers: list[DescribeProducersResponse.ProducerState] = wire(
            "[]ProducerState", default=[]
        )

    class TopicResponse(Struct):
        name: str = wire("string", default="")
        partitions: list[DescribeProducersResponse.PartitionResponse] = wire(
            "[]PartitionResponse", default=[]
        )

    throttle_time_ms: int = wire("int32", default=0)
    topics: list[DescribeProducersResponse.TopicResponse] = wire("[]TopicResponse", default=[])
