"""How a rebalance starts, waits and ends; shared by JoinGroup, SyncGroup, LeaveGroup and the
timers.

Pure. Law: a rebalance always ends, because all its members wait for it. The join phase ends when
everybody has joined or its timer fires, the sync phase when everybody has synced or its timer
fires; whoever is late is removed. A group that was empty waits the initial rebalance delay for more
members (KIP-134); the delay 0 ends its join phase at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kbroker.config.group_config import GroupConfig
from kbroker.coordinator.group.causes import Cause, by_member, expired, rebalance, stable, who
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.member import Member
from kbroker.coordinator.group.records import group_metadata
from kbroker.coordinator.runtime.effects import (
    Append,
    CancelTimer,
    Effect,
    Happened,
    Instant,
    Reply,
    SetTimer,
)
from kbroker.errors import ErrorCode
from kbroker.events.event import Event
from kbroker.events.group_events import RebalanceCause, RemovalCause
from kbroker.protocol.messages.join_group import JoinGroupResponse
from kbroker.protocol.messages.sync_group import SyncGroupResponse

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000  # a member without an id cannot send heartbeats
UNKNOWN_MEMBER = ""  # member id of someone who has none yet


class TimerKind(Enum):
    """The purpose of a timer of a group."""

    JOIN = "join"  # end of the join phase
    SYNC = "sync"  # end of the sync phase
    SESSION = "session"  # of one member
    PENDING = "pending"  # of one member id that was handed out


class TimerKey(NamedTuple):
    """One timer of a group."""

    kind: TimerKind
    member_id: str = ""


JOIN_TIMER = TimerKey(TimerKind.JOIN)
SYNC_TIMER = TimerKey(TimerKind.SYNC)


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentStored:
    """Token of the record that holds a new generation's assignments."""

    generation_id: int
    assignments: dict[str, bytes]


@dataclass(frozen=True, slots=True, eq=False)
class EmptyGroupStored:
    """Token of the record of a group that lost its last member."""


@dataclass(slots=True, eq=False, repr=False)
class GroupStep:
    """One input to a group on its way through the machine; collects the effects."""

    group: Group
    config: GroupConfig
    now: Instant
    effects: list[Effect] = field(default_factory=list)

    def note(self, event: Event) -> None:
        """Let people know what has happened."""
        self.effects.append(Happened(event))


# ---- sessions


def keep_alive(step: GroupStep, member: Member, timeout_ms: int | None = None) -> None:
    """The member was heard of: its session lasts from now.

    The timer is set again only when it would fire too late.
    """
    deadline = step.now.monotonic_ms + (timeout_ms or member.session_timeout_ms)
    member.session_deadline_ms = deadline
    if not member.timer_at_ms or deadline < member.timer_at_ms:
        member.timer_at_ms = deadline
        step.effects.append(SetTimer(TimerKey(TimerKind.SESSION, member.member_id), deadline))


def forget_session(step: GroupStep, member: Member) -> None:
    """The member is gone, or has another id now: its timer goes too."""
    if member.timer_at_ms:
        member.timer_at_ms = 0.0
        step.effects.append(CancelTimer(TimerKey(TimerKind.SESSION, member.member_id)))


# ---- held answers


def refused_join(member_id: str, code: ErrorCode) -> JoinGroupResponse:
    """JoinGroup's answer to someone who did not get in."""
    return JoinGroupResponse(
        error_code=int(code), generation_id=-1, protocol_name=None, leader="", member_id=member_id
    )


def joined_answer(group: Group, member_id: str) -> JoinGroupResponse:
    """JoinGroup's answer to a member of the current generation; the leader gets the members too."""
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member_id,
        members=member_list(group) if group.is_leader(member_id) else [],
    )


def member_list(group: Group) -> list[JoinGroupResponse.JoinGroupResponseMember]:
    """List the members as the leader needs them to assign partitions."""
    protocol = group.protocol_name
    assert protocol is not None
    return [
        JoinGroupResponse.JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(protocol),
        )
        for member in group.members.values()
    ]


def answer_join(step: GroupStep, member: Member, response: JoinGroupResponse) -> None:
    """Answer the member's JoinGroup if one waits."""
    if member.join is not None:
        step.effects.append(Reply(member.join, response))
        step.group.hold_join(member, None)


def answer_sync(step: GroupStep, member: Member, response: SyncGroupResponse) -> None:
    """Answer the member's SyncGroup if one waits."""
    if member.sync is not None:
        step.effects.append(Reply(member.sync, response))
        member.sync = None


# ---- join phase


def maybe_prepare_rebalance(step: GroupStep, cause: Cause) -> None:
    """Start a rebalance, unless one is in its join phase already."""
    if step.group.can_rebalance():
        prepare_rebalance(step, cause)


def prepare_rebalance(step: GroupStep, cause: Cause) -> None:
    """Open the join phase; members that wait for an assignment are sent back to JoinGroup."""
    group = step.group
    if group.state is GroupState.COMPLETING_REBALANCE:
        drop_assignments(step, ErrorCode.REBALANCE_IN_PROGRESS)
    step.note(rebalance(group, cause))
    step.effects.append(CancelTimer(SYNC_TIMER))
    was_empty = group.state is GroupState.EMPTY
    group.transition_to(GroupState.PREPARING_REBALANCE, step.now.wall_ms)
    if not was_empty:
        if group.has_all_members_joined():
            complete_join(step)
        else:
            _wait_for_joins(step, group.rebalance_timeout_ms())
        return
    delay = step.config.group_initial_rebalance_delay_ms
    if delay <= 0:
        complete_join(step)
        return
    group.initial_join_remaining_ms = max(group.rebalance_timeout_ms() - delay, 0)
    _wait_for_joins(step, delay)


def _wait_for_joins(step: GroupStep, delay_ms: float) -> None:
    step.effects.append(SetTimer(JOIN_TIMER, step.now.monotonic_ms + delay_ms))


def wait_again(step: GroupStep) -> None:
    """Set the timer of the phase that the group is in."""
    group = step.group
    if group.state is GroupState.PREPARING_REBALANCE:
        _wait_for_joins(step, group.rebalance_timeout_ms())
    elif group.pending_sync_members:
        deadline = step.now.monotonic_ms + group.rebalance_timeout_ms()
        step.effects.append(SetTimer(SYNC_TIMER, deadline))


def try_complete_join(step: GroupStep) -> None:
    """End the join phase when nobody is missing; the initial delay always runs to its end."""
    group = step.group
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.initial_join_remaining_ms < 0
        and group.has_all_members_joined()
    ):
        complete_join(step)


def on_join_timer(step: GroupStep) -> None:
    """End the join phase, or a part of the initial delay, which new members extend."""
    group = step.group
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    remaining = group.initial_join_remaining_ms
    if remaining > 0 and group.new_member_added:
        group.new_member_added = False
        delay = min(step.config.group_initial_rebalance_delay_ms, remaining)
        group.initial_join_remaining_ms = remaining - delay
        _wait_for_joins(step, delay)
    else:
        complete_join(step)


def complete_join(step: GroupStep) -> None:
    """Close the join phase: who did not come is removed, the others learn the new generation."""
    group = step.group
    group.initial_join_remaining_ms = -1.0
    group.new_member_added = False
    late = [m for m in group.members.values() if m.join is None and not m.is_static]
    timeout = _timeout(group) if late else ""
    for member in late:
        step.note(expired(group, RemovalCause.JOIN_TIMEOUT, who(member), timeout))
        group.remove(member.member_id)
        forget_session(step, member)
    if group.members and not group.elect_joined_leader():
        # Static members only, and none is back yet: their sessions decide how long they are waited
        # for.
        _wait_for_joins(step, group.rebalance_timeout_ms())
        return
    step.effects.append(CancelTimer(JOIN_TIMER))
    group.init_next_generation(step.now.wall_ms)
    if group.state is GroupState.EMPTY:
        step.effects.append(Append((group_metadata(group, {}),), EmptyGroupStored()))
        return
    for member in group.members.values():
        answer_join(step, member, joined_answer(group, member.member_id))
        member.is_new = False
        keep_alive(step, member)
        group.pending_sync_members.add(member.member_id)
    deadline = step.now.monotonic_ms + group.rebalance_timeout_ms()
    step.effects.append(SetTimer(SYNC_TIMER, deadline))


def _timeout(group: Group) -> str:
    return f"{group.rebalance_timeout_ms():,}"


# ---- sync phase


def sync_received(step: GroupStep, member_id: str) -> None:
    """The member has asked for its assignment.

    The last one to do so ends the sync phase's timer.
    """
    pending = step.group.pending_sync_members
    if member_id in pending:
        pending.discard(member_id)
        if not pending:
            step.effects.append(CancelTimer(SYNC_TIMER))


def on_sync_timer(step: GroupStep) -> None:
    """Remove members that joined but never asked for their assignment, and start again."""
    group = step.group
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return
    late = [
        group.members[each] for each in list(group.members) if each in group.pending_sync_members
    ]
    if not late:
        return
    timeout = _timeout(group)
    for member in late:
        step.note(expired(group, RemovalCause.SYNC_TIMEOUT, who(member), timeout))
        group.remove(member.member_id)
        forget_session(step, member)
    maybe_prepare_rebalance(step, by_member(RebalanceCause.SYNC_TIMEOUT, late[0], timeout))


def drop_assignments(step: GroupStep, code: ErrorCode) -> None:
    """The assignments of this generation are void: whoever waits for one learns it."""
    assert step.group.state is GroupState.COMPLETING_REBALANCE
    for member in step.group.members.values():
        member.assignment = b""
        if member.sync is not None:
            answer_sync(step, member, SyncGroupResponse(error_code=int(code)))
            keep_alive(step, member)


def on_assignment_stored(step: GroupStep, token: AssignmentStored, error: ErrorCode) -> None:
    """The leader's assignments are in the log, or cannot be: hand them out, or start again."""
    group = step.group
    if (
        group.state is not GroupState.COMPLETING_REBALANCE
        or group.generation_id != token.generation_id
    ):
        return  # someone joined or left meanwhile
    if error is not ErrorCode.NONE:
        drop_assignments(step, error)
        maybe_prepare_rebalance(step, Cause(RebalanceCause.NOT_STORED, detail=error.name))
        return
    group.transition_to(GroupState.STABLE, step.now.wall_ms)
    step.note(stable(group))
    for member in group.members.values():
        member.assignment = token.assignments.get(member.member_id, b"")
        if member.sync is not None:
            answer_sync(step, member, assigned(group, member))
            keep_alive(step, member)


def assigned(group: Group, member: Member) -> SyncGroupResponse:
    """SyncGroup's answer to a member of a stable group."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
