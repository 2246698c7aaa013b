"""StreamsGroupDescribe: streams groups (KIP-1071, KIP-1331, KIP-1357).

v0: flexible.
v1: request gains include_topology_description; response gains topology_description,
    topology_description_status, assignor_name.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeRequest(Message):
    """The groups asked about."""

    group_ids: list[str] = wire("[]string", default=[])
    include_authorized_operations: bool = wire("bool", default=False)
    include_topology_description: bool = wire("bool", "1+", default=False)


@message(key=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeResponse(Message):
    class KeyValue(Struct):
        """A name and its value."""

        key: str = wire("string", default="")
        value: str = wire("string", default="")

    class TopicInfo(Struct):
        """An internal topic of a topology."""

        name: str = wire("string", default="")
        partitions: int = wire("int32", default=0)
        replication_factor: int = wire("int16", default=0)
        topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = wire("[]KeyValue", default=[])

    class Subtopology(Struct):
        """A part of the topology that one task runs."""

        subtopology_id: str = wire("string", default="")
        source_topics: list[str] = wire("[]string", default=[])
        repartition_sink_topics: list[str] = wire("[]string", default=[])
        state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = wire(
            "[]TopicInfo", default=[]
        )
        repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = wire(
            "[]TopicInfo", default=[]
        )

    class Topology(Struct):
        """The topology that the group runs; null subtopologies if unknown."""

        epoch: int = wire("int32", default=0)
        subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = wire(
            "[]Subtopology", nullable="0+", default=None
        )

    class Endpoint(Struct):
        """Where a member answers queries."""

        host: str = wire("string", default="")
        port: int = wire("uint16", default=0)

    class TaskOffset(Struct):
        """How far a task has come."""

        subtopology_id: str = wire("string", default="")
        partition: int = wire("int32", default=0)
        offset: int = wire("int64", default=0)

    class TaskIds(Struct):
        """Tasks of one subtopology."""

        subtopology_id: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    class Assignment(Struct):
        """The tasks that a member has or shall have."""

        active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = wire("[]TaskIds", default=[])
        standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = wire("[]TaskIds", default=[])
        warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = wire("[]TaskIds", default=[])

    class Member(Struct):
        member_id: str = wire("string", default="")
        member_epoch: int = wire("int32", default=0)
        instance_id: str | None = wire("string", nullable="0+", default=None)
        rack_id: str | None = wire("string", nullable="0+", default=None)
        client_id: str = wire("string", default="")
        client_host: str = wire("string", default="")
        topology_epoch: int = wire("int32", default=0)
        process_id: str = wire("string", default="")
        user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = wire(
            "Endpoint", nullable="0+", default=None
        )
        client_tags: list[StreamsGroupDescribeResponse.KeyValue] = wire("[]KeyValue", default=[])
        task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = wire(
            "[]TaskOffset", default=[]
        )
        task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = wire(
            "[]TaskOffset", default=[]
        )
        assignment: StreamsGroupDescribeResponse.Assignment = wire("Assignment", default=...)
        target_assignment: StreamsGroupDescribeResponse.Assignment = wire("Assignment", default=...)
        is_classic: bool = wire("bool", default=False)

    class TopologyDescriptionNode(Struct):
        """A node of the graph: what it reads, keeps and hands on."""

        name: str = wire("string", "1+", default="")
        node_type: int = wire("int8", "1+", default=0)
        source_topics: list[str] = wire("[]string", "1+", default=[])
        sink_topic: str | None = wire("string", "1+", nullable="1+", default=None)
        stores: list[str] = wire("[]string", "1+", default=[])
        successors: list[str] = wire("[]string", "1+", default=[])

    class TopologyDescriptionSubtopology(Struct):
        """Nodes that belong together."""

        subtopology_id: str = wire("string", "1+", default="")
        nodes: list[StreamsGroupDescribeResponse.TopologyDescriptionNode] = wire(
            "[]TopologyDescriptionNode", "1+", default=[]
        )

    class TopologyDescriptionGlobalStore(Struct):
        """A store that every member has whole, and what fills it."""

        source: StreamsGroupDescribeResponse.TopologyDescriptionNode = wire(
            "TopologyDescriptionNode", "1+", default=...
        )
        processor: StreamsGroupDescribeResponse.TopologyDescriptionNode = wire(
            "TopologyDescriptionNode", "1+", default=...
        )

    class TopologyDescription(Struct):
        """The graph of the topology."""

        subtopologies: list[StreamsGroupDescribeResponse.TopologyDescriptionSubtopology] = wire(
            "[]TopologyDescriptionSubtopology", "1+", default=[]
        )
        global_stores: list[StreamsGroupDescribeResponse.TopologyDescriptionGlobalStore] = wire(
            "[]TopologyDescriptionGlobalStore", "1+", default=[]
        )

    class DescribedGroup(Struct):
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)
        group_id: str = wire("string", default="")
        group_state: str = wire("string", default="")
        group_epoch: int = wire("int32", default=0)
        assignment_epoch: int = wire("int32", default=0)
        topology: StreamsGroupDescribeResponse.Topology | None = wire(
            "Topology", nullable="0+", default=None
        )
        members: list[StreamsGroupDescribeResponse.Member] = wire("[]Member", default=[])
        authorized_operations: int = wire("int32", default=-2147483648)
        topology_description: StreamsGroupDescribeResponse.TopologyDescription | None = wire(
            "TopologyDescription", "1+", nullable="1+", default=None
        )
        topology_description_status: int = wire("int8", "1+", default=0)
        assignor_name: str | None = wire("string", "1+", nullable="1+", default=None)

    throttle_time_ms: int = wire("int32", default=0)
    groups: list[StreamsGroupDescribeResponse.DescribedGroup] = wire("[]DescribedGroup", default=[])
