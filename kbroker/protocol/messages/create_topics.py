"""CreateTopics: create topics with assignment and configuration (KIP-464, KIP-516, KIP-525,
KIP-599).

v1: request gains validate_only; response gains error_message.
v2: response gains throttle_time_ms.
v3: Same bytes as v2.
v4: Same bytes as v3; -1 partitions and replicas are defaults.
v5: response gains topic_config_error_code, num_partitions, replication_factor, configs; flexible.
v6: Same bytes as v5; throttled by THROTTLING_QUOTA_EXCEEDED.
v7: response gains topic_id.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=19, versions="0-7", flexible="5+")
class CreateTopicsRequest(Message):
    class CreatableReplicaAssignment(Struct):
        partition_index: int = wire("int32", default=0)
        broker_ids: list[int] = wire("[]int32", default=[])

    class CreatableTopicConfig(Struct):
        name: str = wire("string", default="")
        value: str | None = wire("string", nullable="0+", default="")

    class CreatableTopic(Struct):
        """A topic to create; -1 asks for the default number of partitions or replicas."""

        name: str = wire("string", default="")
        num_partitions: int = wire("int32", default=0)
        replication_factor: int = wire("int16", default=0)
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = wire(
            "[]CreatableReplicaAssignment", default=[]
        )
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = wire(
            "[]CreatableTopicConfig", default=[]
        )

    topics: list[CreateTopicsRequest.CreatableTopic] = wire("[]CreatableTopic", default=[])
    timeout_ms: int = wire("int32", default=60000)
    validate_only: bool = wire("bool", "1+", default=False)


@message(key=19, versions="0-7", flexible="5+")
class CreateTopicsResponse(Message):
    class CreatableTopicConfigs(Struct):
        """A configuration that the topic got."""

        name: str = wire("string", "5+", default="")
        value: str | None = wire("string", "5+", nullable="5+", default="")
        read_only: bool = wire("bool", "5+", default=False)
        config_source: int = wire("int8", "5+", default=-1)
        is_sensitive: bool = wire("bool", "5+", default=False)

    class CreatableTopicResult(Struct):
        name: str = wire("string", default="")
        topic_id: UUID = wire("uuid", "7+", default=ZERO_UUID)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", "1+", nullable="0+", default="")
        topic_config_error_code: int = wire("int16", "5+", tag=0, default=0)
        num_partitions: int = wire("int32", "5+", default=-1)
        replication_factor: int = wire("int16", "5+", default=-1)
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = wire(
            "[]CreatableTopicConfigs", "5+", nullable="5+", default=[]
        )

    throttle_time_ms: int = wire("int32", "2+", default=0)
    topics: list[CreateTopicsResponse.CreatableTopicResult] = wire(
        "[]CreatableTopicResult", default=[]
    )
