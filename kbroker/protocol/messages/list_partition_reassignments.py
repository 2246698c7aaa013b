"""ListPartitionReassignments: the moves of partitions under way (KIP-455).

v0: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest(Message):
    """The partitions asked about; null means all."""

    class ListPartitionReassignmentsTopics(Struct):
        name: str = wire("string", default="")
        partition_indexes: list[int] = wire("[]int32", default=[])

    timeout_ms: int = wire("int32", default=60000)
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = wire(
        "[]ListPartitionReassignmentsTopics", nullable="0+", default=None
    )


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(Message):
    class OngoingPartitionReassignment(Struct):
        """The move of one partition: replicas in all, those that come, those that go."""

        partition_index: int = wire("int32", default=0)
        replicas: list[int] = wire("[]int32", default=[])
        adding_replicas: list[int] = wire("[]int32", default=[])
        removing_replicas: list[int] = wire("[]int32", default=[])

    class OngoingTopicReassignment(Struct):
        name: str = wire("string", default="")
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = wire(
            "[]OngoingPartitionReassignment", default=[]
        )

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default="")
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = wire(
        "[]OngoingTopicReassignment", default=[]
    )
