"""Writes the records of consumer groups as Kafka 4.3 does, and their tombstones. Pure.

Law: the same values give the same bytes, whatever order they come in: topics are sorted by name or
by id, partitions by number. Kafka sorts names too; the order that its hash tables give ids and
partitions says nothing. Nobody may be asked for a name that `fits_a_record` refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from uuid import UUID

from kbroker.coordinator.consumer_group.record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kbroker.coordinator.consumer_group.record_values import (
    ClassicMemberMetadata,
    CurrentMemberAssignment,
    GroupMetadata,
    MemberMetadata,
    PartitionEpochs,
    Partitions,
    ResolvedRegularExpression,
    TargetAssignmentMetadata,
)
from kbroker.coordinator.runtime.effects import KeyValue
from kbroker.coordinator.runtime.versioned_record import keyed, versioned
from kbroker.java_hash import java_sorted
from kbroker.protocol.schema import Message

_VERSION = 0  # of all values
_BY_NUMBER: Callable[[UUID], int] = attrgetter("int")  # ids compare so, in a third of the time

# ---- of a group


def group_metadata(group_id: str, group: GroupMetadata) -> KeyValue:
    """The epoch of a group."""
    value = ConsumerGroupMetadataValue(epoch=group.epoch, metadata_hash=group.metadata_hash)
    return _record(ConsumerGroupMetadataKey(group_id=group_id), value)


def group_metadata_tombstone(group_id: str) -> KeyValue:
    """The end of a group: nothing else of it may be left."""
    return _tombstone(ConsumerGroupMetadataKey(group_id=group_id))


def partition_metadata_tombstone(group_id: str) -> KeyValue:
    """The end of what brokers before Kafka 4.1 wrote of a group's topics."""
    return _tombstone(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def target_assignment_metadata(group_id: str, target: TargetAssignmentMetadata) -> KeyValue:
    """The epoch that a target assignment is for."""
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=target.assignment_epoch,
        assignment_timestamp=target.assignment_timestamp_ms,
    )
    return _record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_assignment_metadata_tombstone(group_id: str) -> KeyValue:
    """The end of a target assignment: no member may have one any more."""
    return _tombstone(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))


def regular_expression(
    group_id: str, pattern: str, resolved: ResolvedRegularExpression
) -> KeyValue:
    """The topics that a pattern names."""
    value = ConsumerGroupRegularExpressionValue(
        topics=java_sorted(resolved.topics),
        version=resolved.version,
        timestamp=resolved.timestamp_ms,
    )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern)
    return _record(key, value)


def regular_expression_tombstone(group_id: str, pattern: str) -> KeyValue:
    """The end of a pattern that no member subscribes to any more."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern)
    return _tombstone(key)


# ---- of a member


def member_metadata(group_id: str, member_id: str, member: MemberMetadata) -> KeyValue:
    """The description of a member by itself."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=java_sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=_classic(member.classic_member_metadata),
    )
    return _record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def member_metadata_tombstone(group_id: str, member_id: str) -> KeyValue:
    """The end of a member: neither a target nor a current assignment may be left of it."""
    return _tombstone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def target_assignment_member(group_id: str, member_id: str, target: Partitions) -> KeyValue:
    """The partitions that a member is to have."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            ConsumerGroupTargetAssignmentMemberValue.TopicPartition(
                topic_id=topic_id, partitions=sorted(target[topic_id])
            )
            for topic_id in sorted(target, key=_BY_NUMBER)
        ]
    )
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return _record(key, value)


def target_assignment_member_tombstone(group_id: str, member_id: str) -> KeyValue:
    """The end of a target, of a member that leaves."""
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return _tombstone(key)


def current_member_assignment(
    group_id: str, member_id: str, current: CurrentMemberAssignment
) -> KeyValue:
    """The epoch that a member has reached, and its partitions in it."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.member_epoch,
        previous_member_epoch=current.previous_member_epoch,
        state=current.state,
        assigned_partitions=_with_epochs(current.assigned_partitions),
        partitions_pending_revocation=_with_epochs(current.partitions_pending_revocation),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return _record(key, value)


def current_member_assignment_tombstone(group_id: str, member_id: str) -> KeyValue:
    """The end of a member's partitions: the member has left its epoch."""
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return _tombstone(key)


def _record(key: Message, value: Message) -> KeyValue:
    return KeyValue(keyed(key), versioned(value, _VERSION))


def _tombstone(key: Message) -> KeyValue:
    return KeyValue(keyed(key), None)


def _classic(
    member: ClassicMemberMetadata | None,
) -> ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None:
    if member is None:
        return None
    protocol = ConsumerGroupMemberMetadataValue.ClassicProtocol
    return ConsumerGroupMemberMetadataValue.ClassicMemberMetadata(
        session_timeout_ms=member.session_timeout_ms,
        supported_protocols=[
            protocol(name=each.name, metadata=each.metadata) for each in member.supported_protocols
        ],
    )


def _of_topic(entry: tuple[UUID, object]) -> int:
    return entry[0].int


def _with_epochs(
    partitions: PartitionEpochs,
) -> list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]:
    return [
        ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions(
            topic_id=topic_id,
            partitions=(numbers := sorted(epochs)),
            assignment_epochs=[epochs[number] for number in numbers],
        )
        for topic_id, epochs in sorted(partitions.items(), key=_of_topic)
    ]
