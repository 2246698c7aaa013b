"""Reads the records of consumer groups, also those that brokers of Kafka 4.0 wrote. Pure.

Law: bytes that are no such record raise ProtocolError, as does a value of a version that is not
known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from uuid import UUID

from kbroker.coordinator.consumer_group.record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kbroker.coordinator.consumer_group.record_values import (
    ClassicMemberMetadata,
    ClassicProtocol,
    CurrentMemberAssignment,
    GroupMetadata,
    MemberMetadata,
    MemberState,
    PartitionEpochs,
    Partitions,
    RecordKey,
    RecordKind,
    ResolvedRegularExpression,
    TargetAssignmentMetadata,
)
from kbroker.coordinator.runtime.versioned_record import VERSION_BYTES, version_of
from kbroker.errors import ProtocolError
from kbroker.protocol.codec import decode
from kbroker.protocol.schema import Message

SCHEMAS: dict[RecordKind, tuple[type[Message], type[Message]]] = {
    RecordKind.GROUP_METADATA: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    RecordKind.PARTITION_METADATA: (
        ConsumerGroupPartitionMetadataKey,
        ConsumerGroupPartitionMetadataValue,
    ),
    RecordKind.MEMBER_METADATA: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    RecordKind.TARGET_ASSIGNMENT_METADATA: (
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMetadataValue,
    ),
    RecordKind.TARGET_ASSIGNMENT_MEMBER: (
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMemberValue,
    ),
    RecordKind.CURRENT_MEMBER_ASSIGNMENT: (
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupCurrentMemberAssignmentValue,
    ),
    RecordKind.REGULAR_EXPRESSION: (
        ConsumerGroupRegularExpressionKey,
        ConsumerGroupRegularExpressionValue,
    ),
}
"""The layouts of key and value, by kind."""

_UNSAID = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata()
_STATES = frozenset(MemberState)

MessageT = TypeVar("MessageT", bound=Message)


def read_key(key: bytes) -> RecordKey | None:
    """Read a key; None if it is of another kind of group, or of a committed offset."""
    number = version_of(key)
    if number not in SCHEMAS:
        return None
    kind = RecordKind(number)
    read = decode(SCHEMAS[kind][0], 0, key, VERSION_BYTES)[0]
    group_id, *names = (getattr(read, field.name) for field in read.declared_fields)
    return RecordKey(kind, group_id, *names)


def read_group_metadata(value: bytes) -> GroupMetadata:
    """Read the epoch of a group."""
    read = _decoded(ConsumerGroupMetadataValue, value)
    return GroupMetadata(read.epoch, read.metadata_hash)


def read_member_metadata(value: bytes) -> MemberMetadata:
    """Read how a member described itself. Without a word of the classic protocol, as before Kafka
    3.8, it speaks the new one.
    """
    read = _decoded(ConsumerGroupMemberMetadataValue, value)
    return MemberMetadata(
        instance_id=read.instance_id,
        rack_id=read.rack_id,
        client_id=read.client_id,
        client_host=read.client_host,
        subscribed_topic_names=frozenset(read.subscribed_topic_names),
        subscribed_topic_regex=read.subscribed_topic_regex,
        rebalance_timeout_ms=read.rebalance_timeout_ms,
        server_assignor=read.server_assignor,
        classic_member_metadata=_classic(read.classic_member_metadata),
    )


def read_target_assignment_metadata(value: bytes) -> TargetAssignmentMetadata:
    """Read the epoch of a target assignment."""
    read = _decoded(ConsumerGroupTargetAssignmentMetadataValue, value)
    return TargetAssignmentMetadata(read.assignment_epoch, read.assignment_timestamp)


def read_target_assignment_member(value: bytes) -> Partitions:
    """The partitions that a member is to have."""
    read = _decoded(ConsumerGroupTargetAssignmentMemberValue, value)
    return {each.topic_id: frozenset(each.partitions) for each in read.topic_partitions}


def read_current_member_assignment(value: bytes) -> CurrentMemberAssignment:
    """Read how far a member is. A partition that is written without the epoch in which the member
    got it counts as got in the member's own: so wrote brokers before Kafka 4.3.
    """
    read = _decoded(ConsumerGroupCurrentMemberAssignmentValue, value)
    epoch = max(read.member_epoch, 0)  # a static member that has left for a while is in epoch -2
    return CurrentMemberAssignment(
        member_epoch=read.member_epoch,
        previous_member_epoch=read.previous_member_epoch,
        state=MemberState(read.state) if read.state in _STATES else MemberState.UNKNOWN,
        assigned_partitions=_with_epochs(read.assigned_partitions, epoch),
        partitions_pending_revocation=_with_epochs(read.partitions_pending_revocation, epoch),
    )


def read_regular_expression(value: bytes) -> ResolvedRegularExpression:
    """Read the topics of a pattern."""
    read = _decoded(ConsumerGroupRegularExpressionValue, value)
    return ResolvedRegularExpression(frozenset(read.topics), read.version, read.timestamp)


def _decoded(kind: type[MessageT], value: bytes) -> MessageT:
    version = version_of(value)
    if version not in kind.spec.versions:
        raise ProtocolError(f"{kind.__name__} version {version}, {kind.spec.versions} are known")
    return decode(kind, version, value, VERSION_BYTES)[0]


def _classic(
    member: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None,
) -> ClassicMemberMetadata | None:
    if member is None or member == _UNSAID:
        return None
    return ClassicMemberMetadata(
        member.session_timeout_ms,
        tuple(ClassicProtocol(each.name, each.metadata) for each in member.supported_protocols),
    )


def _with_epochs(
    topics: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions], default_epoch: int
) -> PartitionEpochs:
    found: dict[UUID, Mapping[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            found[topic.topic_id] = dict.fromkeys(topic.partitions, default_epoch)
        else:
            found[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return found
