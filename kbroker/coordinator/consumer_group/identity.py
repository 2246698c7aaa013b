"""The member that a heartbeat is from: a new one, a known one, one that takes another's place.

Pure. Law: a member acts in its own epoch, or in the one before it if the answer with the new one
may have been lost, which shows in that it has nothing beyond its assignment; who is in another
epoch abandons its partitions and joins again. A static member's place is free once it has left for
a while (KIP-345, KIP-848).
"""

from __future__ import annotations

from kbroker.coordinator.consumer_group.changes import removal_of_member
from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.member import (
    AWAY,
    JOINING,
    Member,
    OwnedPartitions,
)
from kbroker.coordinator.consumer_group.record_values import RecordKind
from kbroker.coordinator.consumer_group.step import ConsumerStep
from kbroker.errors import ErrorCode, KafkaError


def dynamic_member(
    group: ConsumerGroup, member_id: str, epoch: int, owned: OwnedPartitions | None
) -> Member:
    """The member under an id, or a new one if it joins. Raises KafkaError."""
    if epoch == JOINING and member_id not in group.members:
        return Member(member_id)
    member = known_member(group, member_id)
    check_epoch(member, epoch, owned)
    return member


def static_member(
    step: ConsumerStep,
    member_id: str,
    epoch: int,
    instance_id: str,
    owned: OwnedPartitions | None,
) -> Member:
    """The member of an instance id; one that joins takes over from whoever has left for a while.
    Raises KafkaError.
    """
    group = step.group
    before = group.static_member(instance_id)
    if epoch != JOINING:
        before = known_instance(group, member_id, instance_id)
        check_epoch(before, epoch, owned)
        return before
    if before is None:
        return group.members.get(member_id, Member(member_id))
    if not before.is_classic and before.epoch != AWAY:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group"
            f" because the instance id is owned by {before.member_id} member.",
        )
    return replaced_member(step, before, member_id)


def replaced_member(step: ConsumerStep, before: Member, member_id: str) -> Member:
    """Let one member end, and another begin with all that it had. Timers find the first gone."""
    current = before.current._replace(member_epoch=JOINING, previous_member_epoch=JOINING)
    member = Member(member_id, before.metadata, current)
    step.changes += removal_of_member(before.member_id)
    step.change(RecordKind.MEMBER_METADATA, member.metadata, member.member_id)
    target = step.group.target(before.member_id)
    step.change(RecordKind.TARGET_ASSIGNMENT_MEMBER, target, member.member_id)
    step.change(RecordKind.CURRENT_MEMBER_ASSIGNMENT, member.current, member.member_id)
    return member


def known_member(group: ConsumerGroup, member_id: str) -> Member:
    """The member under an id. Raises KafkaError UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {group.group_id}.",
        )
    return member


def known_instance(group: ConsumerGroup, member_id: str, instance_id: str) -> Member:
    """The member of an instance id, if it is the one under `member_id`. Raises KafkaError."""
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {member.member_id}.",
        )
    return member


def check_epoch(member: Member, epoch: int, owned: OwnedPartitions | None) -> None:
    """Raise KafkaError FENCED_MEMBER_EPOCH for a member in another epoch than is known here."""
    if epoch in (JOINING, member.epoch):
        return
    size = "greater" if epoch > member.epoch else "smaller"
    is_late = epoch < member.epoch and epoch == member.current.previous_member_epoch
    if is_late and member.has_within(owned):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the"
        f" group coordinator ({member.epoch}). The member must abandon all its partitions and"
        " rejoin.",
    )
