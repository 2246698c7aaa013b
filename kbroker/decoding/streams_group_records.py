"""How the records of streams groups are laid out (KIP-1071), for those who look at them. Pure.

Values are laid out as those of consumer groups are, in `coordinator/consumer_group/`. Keys name a
group or a member of one.
"""

from __future__ import annotations

from kbroker.protocol.declaration import Struct
from kbroker.protocol.schema import Message, message, wire


@message(key=17, versions="0", flexible="0+")
class StreamsGroupMetadataValue(Message):
    """The epoch of a group, the hash of its topics, and what its last assignment was made with."""

    class LastAssignmentConfig(Struct):
        """A setting of the group, as it was then."""

        key: str = wire("string", default="")
        value: str = wire("string", default="")

    epoch: int = wire("int32", default=0)
    metadata_hash: int = wire("int64", default=0)
    validated_topology_epoch: int = wire("int32", default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = wire(
        "[]LastAssignmentConfig", nullable="0+", default=[], tag=1
    )


@message(key=19, versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue(Message):
    """The description of a member by itself."""

    class Endpoint(Struct):
        """An address at which others may ask the member."""

        host: str = wire("string", default="")
        port: int = wire("uint16", default=0)

    class KeyValue(Struct):
        """A tag of the client."""

        key: str = wire("string", default="")
        value: str = wire("string", default="")

    instance_id: str | None = wire("string", nullable="0+", default="")
    rack_id: str | None = wire("string", nullable="0+", default="")
    client_id: str = wire("string", default="")
    client_host: str = wire("string", default="")
    rebalance_timeout_ms: int = wire("int32", default=-1)
    topology_epoch: int = wire("int32", default=0)
    process_id: str = wire("string", default="")
    user_endpoint: Endpoint | None = wire("Endpoint", nullable="0+", default=None)
    client_tags: list[KeyValue] = wire("[]KeyValue", default=[])


@message(key=20, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue(Message):
    """The epoch that a target assignment is for, and when that was computed."""

    assignment_epoch: int = wire("int32", default=0)
    assignment_timestamp: int = wire("int64", default=0, tag=0)


@message(key=21, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue(Message):
    """The tasks that a member is to have."""

    class TaskIds(Struct):
        """Tasks of a subtopology, by partition."""

        subtopology_id: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    active_tasks: list[TaskIds] = wire("[]TaskIds", default=[])
    standby_tasks: list[TaskIds] = wire("[]TaskIds", default=[])
    warmup_tasks: list[TaskIds] = wire("[]TaskIds", default=[])


@message(key=22, versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue(Message):
    """The tasks that a member has, and those that it still has to give up."""

    class TaskIds(Struct):
        """Tasks of a subtopology, by partition."""

        subtopology_id: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])
        assignment_epochs: list[int] | None = wire("[]int32", nullable="0+", default=[], tag=0)

    member_epoch: int = wire("int32", default=0)
    previous_member_epoch: int = wire("int32", default=0)
    state: int = wire("int8", default=0)
    active_tasks: list[TaskIds] = wire("[]TaskIds", default=[])
    standby_tasks: list[TaskIds] = wire("[]TaskIds", default=[])
    warmup_tasks: list[TaskIds] = wire("[]TaskIds", default=[])
    active_tasks_pending_revocation: list[TaskIds] = wire("[]TaskIds", default=[])
    standby_tasks_pending_revocation: list[TaskIds] = wire("[]TaskIds", default=[])
    warmup_tasks_pending_revocation: list[TaskIds] = wire("[]TaskIds", default=[])


@message(key=23, versions="0", flexible="0+")
class StreamsGroupTopologyValue(Message):
    """The plan of a group: subtopologies with the topics that they read and write."""

    class TopicConfig(Struct):
        """A setting of a topic."""

        key: str = wire("string", default="")
        value: str = wire("string", default="")

    class TopicInfo(Struct):
        """A topic that the group makes."""

        name: str = wire("string", default="")
        partitions: int = wire("int32", default=0)
        replication_factor: int = wire("int16", default=0)
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = wire(
            "[]TopicConfig", default=[]
        )

    class CopartitionGroup(Struct):
        """Topics with equal partitions, as places in the lists of their subtopology."""

        source_topics: list[int] = wire("[]int16", default=[])
        source_topic_regex: list[int] = wire("[]int16", default=[])
        repartition_source_topics: list[int] = wire("[]int16", default=[])

    class Subtopology(Struct):
        """A part of the plan whose tasks depend on no other."""

        subtopology_id: str = wire("string", default="")
        source_topics: list[str] = wire("[]string", default=[])
        source_topic_regex: list[str] = wire("[]string", default=[])
        state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = wire(
            "[]TopicInfo", default=[]
        )
        repartition_sink_topics: list[str] = wire("[]string", default=[])
        repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = wire(
            "[]TopicInfo", default=[]
        )
        copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = wire(
            "[]CopartitionGroup", default=[]
        )

    epoch: int = wire("int32", default=0)
    subtopologies: list[Subtopology] = wire("[]Subtopology", default=[])
