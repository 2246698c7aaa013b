"""The events of a step of a consumer group, read off its changes, reported once these are stored.

Pure. Law: the group is as it was before the step. An epoch has one event, with the first cause that
there is: a member that came, went or was late, another subscription, and else changed topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kbroker.coordinator.consumer_group.changes import Change
from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.member import AWAY, Member
from kbroker.coordinator.consumer_group.record_values import MemberMetadata, RecordKind
from kbroker.coordinator.consumer_group.step import Attendance, ConsumerStep
from kbroker.events.consumer_group_events import (
    EpochBegun,
    EpochCause,
    MemberFenced,
    StaticMemberMoved,
    TargetAssigned,
    TargetReached,
)
from kbroker.events.event import Event, cut
from kbroker.events.group_events import Who


class _Why(NamedTuple):
    cause: EpochCause
    who: Who | None = None
    detail: str = ""


def events_of(step: ConsumerStep) -> list[Event]:
    """Return what a step will have done once its changes are stored."""
    return list(_events(step))


def _events(step: ConsumerStep) -> Iterator[Event]:
    group, changes = step.group, step.changes
    come, gone = _movements(group, changes)
    replaced = {
        metadata.instance_id: group.static_members.get(metadata.instance_id)
        for metadata in come.values()
        if metadata.instance_id is not None
    }
    members = len(group.members) + len(come) - len(gone)
    epoch = next(
        (each.value.epoch for each in changes if _has(each, RecordKind.GROUP_METADATA)), group.epoch
    )
    for member_id, metadata in come.items():
        former = replaced.get(metadata.instance_id or "")
        if former is not None and former in gone:
            who = _who(member_id, metadata)
            yield StaticMemberMoved(
                group=group.group_id, epoch=epoch, who=who, former_id=cut(former)
            )
    for member in gone.values():
        late = step.late.get(member.member_id)
        if late is not None:
            cause, detail = late
            who = _who(member.member_id, member.metadata)
            yield MemberFenced(group=group.group_id, epoch=epoch, why=cause, who=who, detail=detail)
    for change in changes:
        if _has(change, RecordKind.CURRENT_MEMBER_ASSIGNMENT) and change.value.member_epoch == AWAY:
            metadata = group.members[change.name].metadata
            yield StaticMemberMoved(
                group=group.group_id, epoch=epoch, who=_who(change.name, metadata)
            )
        elif _has(change, RecordKind.GROUP_METADATA) and change.value.epoch > group.epoch:
            why = _why(step, come, gone, set(replaced.values()))
            yield EpochBegun(
                group=group.group_id,
                epoch=epoch,
                members=members,
                why=why.cause,
                who=why.who,
                detail=why.detail,
            )
        elif _has(change, RecordKind.TARGET_ASSIGNMENT_METADATA):
            yield TargetAssigned(
                group=group.group_id,
                epoch=change.value.assignment_epoch,
                members=members,
                assignor=step.assignor,
            )


def _has(change: Change, kind: RecordKind) -> bool:
    return change.kind is kind and change.value is not None


def _movements(
    group: ConsumerGroup, changes: Iterable[Change]
) -> tuple[dict[str, MemberMetadata], dict[str, Member]]:
    """Return those who come, and those who go."""
    come: dict[str, MemberMetadata] = {}
    gone: dict[str, Member] = {}
    for kind, name, value in changes:
        if kind is not RecordKind.MEMBER_METADATA:
            continue
        before = group.members.get(name)
        if value is None and before is not None:
            gone[name] = before
        elif value is not None and before is None:
            come[name] = value
    return come, gone


def _why(
    step: ConsumerStep,
    come: dict[str, MemberMetadata],
    gone: Mapping[str, Member],
    replaced: set[str | None],
) -> _Why:
    """The first cause of a new epoch."""
    for member_id, member in gone.items():
        if member_id in replaced:
            continue
        who = _who(member_id, member.metadata)
        late = step.late.get(member_id)
        if late is None:
            return _Why(EpochCause.MEMBER_LEFT, who)
        return _Why(EpochCause[late[0].name], who, late[1])
    for member_id, metadata in reversed(come.items()):  # who changes the protocol brings others
        former = step.group.static_members.get(metadata.instance_id or "")
        if former is None or former not in gone:
            return _Why(EpochCause.NEW_MEMBER, _who(member_id, metadata))
    for kind, name, value in step.changes:
        if kind is RecordKind.MEMBER_METADATA and value is not None:
            return _Why(EpochCause.SUBSCRIPTION_CHANGED, _who(name, value))
    return _Why(EpochCause.TOPICS_CHANGED)


def _who(member_id: str, metadata: MemberMetadata) -> Who:
    return Who.of(member_id, metadata.instance_id, metadata.client_id, metadata.client_host)


def arrival(group: ConsumerGroup, attendance: Attendance) -> Event | None:
    """Return the event of a group whose last member has just reached its target; None if it has
    not, or if that was reported. Of those on their way one is remembered, so that not all are
    looked at each time.
    """
    epoch = group.epoch
    if attendance.stable_epoch == epoch or group.target_metadata.assignment_epoch != epoch:
        return None
    last = group.members.get(attendance.on_its_way)
    if last is not None and not last.is_reconciled_to(epoch):
        return None
    if _found_on_its_way(group, epoch, attendance):
        return None
    # All were seen at their target once: look whether they still are.
    attendance.not_looked_at = iter(list(group.members))
    if _found_on_its_way(group, epoch, attendance):
        return None
    attendance.stable_epoch = epoch
    if not group.members:
        return None
    return TargetReached(group=group.group_id, epoch=epoch, members=len(group.members))


def _found_on_its_way(group: ConsumerGroup, epoch: int, attendance: Attendance) -> bool:
    """Look on among the members for one that has not reached its target."""
    for member_id in attendance.not_looked_at:
        member = group.members.get(member_id)
        if member is not None and not member.is_reconciled_to(epoch):
            attendance.on_its_way = member_id
            return True
    return False
