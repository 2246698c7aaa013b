"""StreamsGroupHeartbeat: a member of a streams group (KIP-1071, KIP-1331).

v0: flexible.
v1: response gains acceptable_recovery_lag, topology_description_required; response drops
    acceptable_recovery_lag_legacy.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=88, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatRequest(Message):
    """The member; what has not changed is null or -1. Epoch 0 joins, -1 leaves."""

    class KeyValue(Struct):
        """A name and its value."""

        key: str = wire("string", default="")
        value: str = wire("string", default="")

    class TopicInfo(Struct):
        """An internal topic that the topology needs; 0 partitions leaves their number to the
        broker.
        """

        name: str = wire("string", default="")
        partitions: int = wire("int32", default=0)
        replication_factor: int = wire("int16", default=0)
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = wire("[]KeyValue", default=[])

    class CopartitionGroup(Struct):
        """Topics with equal partitions, by their places in the lists of the subtopology."""

        source_topics: list[int] = wire("[]int16", default=[])
        source_topic_regex: list[int] = wire("[]int16", default=[])
        repartition_source_topics: list[int] = wire("[]int16", default=[])

    class Subtopology(Struct):
        """A part of the topology that one task runs."""

        subtopology_id: str = wire("string", default="")
        source_topics: list[str] = wire("[]string", default=[])
        source_topic_regex: list[str] = wire("[]string", default=[])
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = wire(
            "[]TopicInfo", default=[]
        )
        repartition_sink_topics: list[str] = wire("[]string", default=[])
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = wire(
            "[]TopicInfo", default=[]
        )
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = wire(
            "[]CopartitionGroup", default=[]
        )

    class Topology(Struct):
        """The topology of the member, with its epoch."""

        epoch: int = wire("int32", default=0)
        subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = wire(
            "[]Subtopology", default=[]
        )

    class TaskIds(Struct):
        """Tasks of one subtopology."""

        subtopology_id: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    class Endpoint(Struct):
        """Where the member answers queries."""

        host: str = wire("string", default="")
        port: int = wire("uint16", default=0)

    class TaskOffset(Struct):
        """How far a task has come."""

        subtopology_id: str = wire("string", default="")
        partition: int = wire("int32", default=0)
        offset: int = wire("int64", default=0)

    group_id: str = wire("string", default="")
    member_id: str = wire("string", default="")
    member_epoch: int = wire("int32", default=0)
    endpoint_information_epoch: int = wire("int32", default=0)
    instance_id: str | None = wire("string", nullable="0+", default=None)
    rack_id: str | None = wire("string", nullable="0+", default=None)
    rebalance_timeout_ms: int = wire("int32", default=-1)
    topology: StreamsGroupHeartbeatRequest.Topology | None = wire(
        "Topology", nullable="0+", default=None
    )
    active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = wire(
        "[]TaskIds", nullable="0+", default=None
    )
    standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = wire(
        "[]TaskIds", nullable="0+", default=None
    )
    warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = wire(
        "[]TaskIds", nullable="0+", default=None
    )
    process_id: str | None = wire("string", nullable="0+", default=None)
    user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None = wire(
        "Endpoint", nullable="0+", default=None
    )
    client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None = wire(
        "[]KeyValue", nullable="0+", default=None
    )
    task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = wire(
        "[]TaskOffset", nullable="0+", default=None
    )
    task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = wire(
        "[]TaskOffset", nullable="0+", default=None
    )
    shutdown_application: bool = wire("bool", default=False)


@message(key=88, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatResponse(Message):
    class Status(Struct):
        """Something that the member should know."""

        status_code: int = wire("int8", default=0)
        status_detail: str = wire("string", default="")

    class TaskIds(Struct):
        """Tasks of one subtopology."""

        subtopology_id: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    class Endpoint(Struct):
        """Where the member answers queries."""

        host: str = wire("string", default="")
        port: int = wire("uint16", default=0)

    class TopicPartition(Struct):
        """Partitions of one topic."""

        topic: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    class EndpointToPartitions(Struct):
        """The partitions that are served at one endpoint."""

        user_endpoint: StreamsGroupHeartbeatResponse.Endpoint = wire("Endpoint", default=...)
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = wire(
            "[]TopicPartition", default=[]
        )
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = wire(
            "[]TopicPartition", default=[]
        )

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default=None)
    member_id: str = wire("string", default="")
    member_epoch: int = wire("int32", default=0)
    heartbeat_interval_ms: int = wire("int32", default=0)
    acceptable_recovery_lag_legacy: int = wire("int32", "0", default=0)
    task_offset_interval_ms: int = wire("int32", default=0)
    acceptable_recovery_lag: int = wire("int64", "1+", default=-1)
    status: list[StreamsGroupHeartbeatResponse.Status] | None = wire(
        "[]Status", nullable="0+", default=[]
    )
    active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = wire(
        "[]TaskIds", nullable="0+", default=None
    )
    standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = wire(
        "[]TaskIds", nullable="0+", default=None
    )
    warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = wire(
        "[]TaskIds", nullable="0+", default=None
    )
    topology_description_required: bool = wire("bool", "1+", default=False)
    endpoint_information_epoch: int = wire("int32", default=0)
    partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None = (
        wire("[]EndpointToPartitions", nullable="0+", default=None)
    )
