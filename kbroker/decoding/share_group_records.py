"""How the records of share groups are laid out (KIP-932), for those who look at them. Pure.

Values are laid out as those of consumer groups are, in `coordinator/consumer_group/`. Keys name a
group or a member of one.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.declaration import Struct
from kbroker.protocol.schema import Message, message, wire


@message(key=10, versions="0", flexible="0+")
class ShareGroupMemberMetadataValue(Message):
    """The description of a member by itself."""

    rack_id: str | None = wire("string", nullable="0+", default="")
    client_id: str = wire("string", default="")
    client_host: str = wire("string", default="")
    subscribed_topic_names: list[str] = wire("[]string", default=[])


@message(key=11, versions="0", flexible="0+")
class ShareGroupMetadataValue(Message):
    """The epoch of a group, and the hash of what it subscribes to."""

    epoch: int = wire("int32", default=0)
    metadata_hash: int = wire("int64", default=0)


@message(key=12, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(Message):
    """The epoch that a target assignment is for, and when that was computed."""

    assignment_epoch: int = wire("int32", default=0)
    assignment_timestamp: int = wire("int64", default=0, tag=0)


@message(key=13, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue(Message):
    """The partitions that a member is to have."""

    class TopicPartition(Struct):
        """Partitions of a topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[int] = wire("[]int32", default=[])

    topic_partitions: list[TopicPartition] = wire("[]TopicPartition", default=[])


@message(key=14, versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue(Message):
    """The partitions that a member has."""

    class TopicPartitions(Struct):
        """Partitions of a topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[int] = wire("[]int32", default=[])

    member_epoch: int = wire("int32", default=0)
    previous_member_epoch: int = wire("int32", default=0)
    state: int = wire("int8", default=0)
    assigned_partitions: list[TopicPartitions] = wire("[]TopicPartitions", default=[])


@message(key=15, versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue(Message):
    """The partitions that have a state for the group, get one, or lose it."""

    class TopicPartitionsInfo(Struct):
        """Partitions of a topic that is named."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        topic_name: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    class TopicInfo(Struct):
        """A topic with its name."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        topic_name: str = wire("string", default="")

    initializing_topics: list[TopicPartitionsInfo] = wire("[]TopicPartitionsInfo", default=[])
    initialized_topics: list[TopicPartitionsInfo] = wire("[]TopicPartitionsInfo", default=[])
    deleting_topics: list[TopicInfo] = wire("[]TopicInfo", default=[])
