"""How the records of consumer groups are laid out (KIP-848): keys 3 to 8, and 16. Pure.

    record key   = int16 kind, fields            the kind is the `key` of its declaration
    record value = int16 version (0), fields     missing (tombstone) when it is gone

Keys are of the old formats, values flexible. Law: each class says what the schema of Kafka 4.3 of
that name says; a test compares them.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.declaration import Struct
from kbroker.protocol.schema import Message, message, wire


@message(key=3, versions="0")
class ConsumerGroupMetadataKey(Message):
    """Names the group that a record is about."""

    group_id: str = wire("string", default="")


@message(key=3, versions="0", flexible="0+")
class ConsumerGroupMetadataValue(Message):
    """The epoch of a group, and the hash of what it subscribes to."""

    epoch: int = wire("int32", default=0)
    metadata_hash: int = wire("int64", default=0, tag=0)


@message(key=4, versions="0")
class ConsumerGroupPartitionMetadataKey(Message):
    """Names a group. Written before Kafka 4.1, which has the hash instead."""

    group_id: str = wire("string", default="")


@message(key=4, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(Message):
    """The topics that a group subscribes to, as they were when it was written."""

    class TopicMetadata(Struct):
        """A topic, and the racks of its partitions if any is known."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        topic_name: str = wire("string", default="")
        num_partitions: int = wire("int32", default=0)
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = wire(
            "[]PartitionMetadata", default=[]
        )

    class PartitionMetadata(Struct):
        """The racks of one partition."""

        partition: int = wire("int32", default=0)
        racks: list[str] = wire("[]string", default=[])

    topics: list[TopicMetadata] = wire("[]TopicMetadata", default=[])


@message(key=5, versions="0")
class ConsumerGroupMemberMetadataKey(Message):
    """Names a member of a group."""

    group_id: str = wire("string", default="")
    member_id: str = wire("string", default="")


@message(key=5, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Message):
    """The description of a member by itself. Of one that speaks the classic protocol, also what it
    joined with; for others the schema wants a null there, which is not the default.
    """

    class ClassicMemberMetadata(Struct):
        """The session and the protocols of a classic member."""

        session_timeout_ms: int = wire("int32", default=0)
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = wire(
            "[]ClassicProtocol", default=[]
        )

    class ClassicProtocol(Struct):
        """A protocol that a member supports, and its subscription."""

        name: str = wire("string", default="")
        metadata: bytes = wire("bytes", default=b"")

    instance_id: str | None = wire("string", nullable="0+", default="")
    rack_id: str | None = wire("string", nullable="0+", default="")
    client_id: str = wire("string", default="")
    client_host: str = wire("string", default="")
    subscribed_topic_names: list[str] = wire("[]string", default=[])
    subscribed_topic_regex: str | None = wire("string", nullable="0+", default="")
    rebalance_timeout_ms: int = wire("int32", default=-1)
    server_assignor: str | None = wire("string", nullable="0+", default="")
    classic_member_metadata: ClassicMemberMetadata | None = wire(
        "ClassicMemberMetadata", nullable="0+", default=..., tag=0
    )


@message(key=6, versions="0")
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """Names the group that a record is about."""

    group_id: str = wire("string", default="")


@message(key=6, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The epoch of a group that its target assignment is for, and when that was computed."""

    assignment_epoch: int = wire("int32", default=0)
    assignment_timestamp: int = wire("int64", default=0, tag=0)


@message(key=7, versions="0")
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Names a member of a group."""

    group_id: str = wire("string", default="")
    member_id: str = wire("string", default="")


@message(key=7, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """The partitions that a member is to have."""

    class TopicPartition(Struct):
        """Partitions of a topic."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[int] = wire("[]int32", default=[])

    topic_partitions: list[TopicPartition] = wire("[]TopicPartition", default=[])


@message(key=8, versions="0")
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Names a member of a group."""

    group_id: str = wire("string", default="")
    member_id: str = wire("string", default="")


@message(key=8, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """The partitions that a member has, and those that it still has to give up."""

    class TopicPartitions(Struct):
        """Partitions of a topic, since Kafka 4.3 with the epochs in which the member got them."""

        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        partitions: list[int] = wire("[]int32", default=[])
        assignment_epochs: list[int] | None = wire("[]int32", nullable="0+", default=[], tag=0)

    member_epoch: int = wire("int32", default=0)
    previous_member_epoch: int = wire("int32", default=0)
    state: int = wire("int8", default=0)
    assigned_partitions: list[TopicPartitions] = wire("[]TopicPartitions", default=[])
    partitions_pending_revocation: list[TopicPartitions] = wire("[]TopicPartitions", default=[])


@message(key=16, versions="0")
class ConsumerGroupRegularExpressionKey(Message):
    """Names a pattern that members of a group subscribe to."""

    group_id: str = wire("string", default="")
    regular_expression: str = wire("string", default="")


@message(key=16, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that a pattern names, by the metadata of a version, and when that was found."""

    topics: list[str] = wire("[]string", default=[])
    version: int = wire("int64", default=0)
    timestamp: int = wire("int64", default=0)
