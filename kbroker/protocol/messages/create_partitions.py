"""CreatePartitions: add partitions to topics (KIP-195, KIP-599).

v1: Same bytes as v0.
v2: flexible.
v3: Same bytes as v2; the code THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest(Message):
    class CreatePartitionsAssignment(Struct):
        broker_ids: list[int] = wire("[]int32", default=[])

    class CreatePartitionsTopic(Struct):
        """A topic and how many partitions it shall have in all."""

        name: str = wire("string", default="")
        count: int = wire("int32", default=0)
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = wire(
            "[]CreatePartitionsAssignment", nullable="0+", default=[]
        )

    topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = wire(
        "[]CreatePartitionsTopic", default=[]
    )
    timeout_ms: int = wire("int32", default=0)
    validate_only: bool = wire("bool", default=False)


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Message):
    class CreatePartitionsTopicResult(Struct):
        name: str = wire("string", default="")
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)

    throttle_time_ms: int = wire("int32", default=0)
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = wire(
        "[]CreatePartitionsTopicResult", default=[]
    )
