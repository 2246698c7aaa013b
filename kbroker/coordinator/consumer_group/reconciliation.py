"""The next step of a member on its way to its target: what it gives up, then what it gets.

Pure. Law: a partition is given to a member only once nobody else has it, and a member first gives
up what it shall not have. So it stays in its epoch while it gives up (UNREVOKED_PARTITIONS), goes
to the target's with what is free (STABLE), and there waits for what others still have
(UNRELEASED_PARTITIONS), as in Kafka's reconciliation (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from uuid import UUID

from kbroker.coordinator.consumer_group.member import NOTHING, Member, OwnedPartitions
from kbroker.coordinator.consumer_group.record_values import (
    CurrentMemberAssignment,
    MemberState,
    PartitionEpochs,
    Partitions,
)
from kbroker.errors import ErrorCode, KafkaError

UNOWNED = -1
_NONE: frozenset[int] = frozenset()
_NO_EPOCHS: Mapping[int, int] = {}
_UNKNOWN_STATE = (
    "The consumer group member is in a unknown state. "
    "The member must abandon all its partitions and rejoin."
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Towards:
    """The target that a member is to reach, and what is known of the way."""

    epoch: int
    target: Partitions
    owner_epoch: Callable[[UUID, int], int]  # the epoch of who has a partition, UNOWNED
    followed: Collection[UUID]  # the topics that the member subscribes to
    owned: OwnedPartitions | None  # what the member says it has; None if it does not say
    has_other_subscription: bool = False  # than a moment ago


def reconciled(member: Member, towards: Towards) -> CurrentMemberAssignment:
    """The member's assignment after the next step, the same object if there is none to be made.

    Raises KafkaError FENCED_MEMBER_EPOCH for a member in a state that a later version wrote.
    """
    current = member.current
    if current.state is MemberState.STABLE and current.member_epoch == towards.epoch:
        return _without_left_topics(member, towards)
    if current.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(
        towards.owned, member.revoking
    ):
        return _without_left_topics(member, towards)
    if current.state is MemberState.UNKNOWN:
        if towards.owned is None or towards.owned:
            raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, _UNKNOWN_STATE)
        return _next(member, towards, towards.epoch)
    return _next(member, towards, current.member_epoch)


def _owns_any(owned: OwnedPartitions | None, revoking: PartitionEpochs) -> bool:
    """Whether the member may still have any of these; it does if it does not say."""
    if owned is None:
        return True
    return any(
        each in revoking.get(topic_id, _NO_EPOCHS)
        for topic_id, partitions in owned.items()
        for each in partitions
    )


def _without_left_topics(member: Member, towards: Towards) -> CurrentMemberAssignment:
    """Take away the topics that the member has just left, without waiting for another target."""
    current, assigned = member.current, member.assigned
    left = (
        [topic_id for topic_id in assigned if topic_id not in towards.followed]
        if towards.has_other_subscription
        else []
    )
    if not left:
        return current
    kept = {topic_id: assigned[topic_id] for topic_id in assigned if topic_id not in left}
    revoking = dict(member.revoking)
    for topic_id in left:
        revoking[topic_id] = {**revoking.get(topic_id, _NO_EPOCHS), **assigned[topic_id]}
    has_revoked = not _owns_any(towards.owned, revoking)
    return current._replace(
        previous_member_epoch=current.member_epoch,
        state=current.state if has_revoked else MemberState.UNREVOKED_PARTITIONS,
        assigned_partitions=kept,
        partitions_pending_revocation=member.revoking if has_revoked else revoking,
    )


def _next(member: Member, towards: Towards, epoch: int) -> CurrentMemberAssignment:
    """The step of a member in `epoch` that has given up what it had to."""
    assigned: dict[UUID, Mapping[int, int]] = {}
    revoking: dict[UUID, Mapping[int, int]] = {}
    free: dict[UUID, list[int]] = {}
    is_waiting = False
    mine, gives_up = member.assigned, member.revoking
    followed, owner_epoch = towards.followed, towards.owner_epoch
    others = ((topic_id, _NONE) for topic_id in mine if topic_id not in towards.target)
    for topic_id, target in chain(towards.target.items(), others):
        has = mine.get(topic_id, _NO_EPOCHS) if mine else _NO_EPOCHS
        if topic_id not in followed:
            target = _NONE
        kept = {each: since for each, since in has.items() if each in target} if has else has
        if len(kept) == len(has):
            kept = has
        if kept:
            assigned[topic_id] = kept
        if len(kept) < len(has):
            revoking[topic_id] = {each: has[each] for each in has if each not in kept}
        wanted = [each for each in target if each not in kept] if kept else target
        released = [
            each
            for each in wanted
            if owner_epoch(topic_id, each) == UNOWNED
            or (gives_up and each in gives_up.get(topic_id, _NO_EPOCHS))  # its own, until now
        ]
        is_waiting = is_waiting or len(released) < len(wanted)
        if released:
            free[topic_id] = released
    if revoking and _owns_any(towards.owned, revoking):
        return CurrentMemberAssignment(
            member_epoch=epoch,
            previous_member_epoch=member.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned_partitions=assigned,
            partitions_pending_revocation=revoking,
        )
    for topic_id, partitions in free.items():
        since = dict.fromkeys(partitions, towards.epoch)
        held = assigned.get(topic_id)
        assigned[topic_id] = since if held is None else {**held, **since}
    return CurrentMemberAssignment(
        member_epoch=towards.epoch,
        previous_member_epoch=member.epoch,
        state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        assigned_partitions=assigned,
        partitions_pending_revocation=NOTHING,
    )
