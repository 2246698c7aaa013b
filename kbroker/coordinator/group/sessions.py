"""Sessions of members: Heartbeat, LeaveGroup and timers, and their effect on a group.

Pure. Law: a heartbeat is a comparison and an assignment without an effect, so that a group's most
frequent request costs next to nothing: the member's timer looks at the deadline when it fires
(KIP-62; KIP-345 for static members).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kbroker.coordinator.group.causes import Cause, by_member, expired, who
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.member import Member
from kbroker.coordinator.group.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    UNKNOWN_MEMBER,
    GroupStep,
    TimerKey,
    TimerKind,
    answer_join,
    answer_sync,
    forget_session,
    keep_alive,
    maybe_prepare_rebalance,
    on_join_timer,
    on_sync_timer,
    refused_join,
    try_complete_join,
    wait_again,
)
from kbroker.coordinator.runtime.effects import CancelTimer, SetTimer
from kbroker.errors import NO_ERROR, ErrorCode
from kbroker.events.group_events import RebalanceCause, RemovalCause, Who
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.sync_group import SyncGroupResponse


class Leaving(Protocol):
    """A member that leaves: by member id, by group instance id (administrators), or both."""

    member_id: str
    group_instance_id: str | None
    reason: str | None  # as the client gives it


def member_error(group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
    """NONE when the caller is a member, and under the id it is known by."""
    if instance_id is not None:
        current = group.static_members.get(instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if current != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return NO_ERROR if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


# ---- Heartbeat


def heartbeat(group: Group, request: HeartbeatRequest, now_ms: float) -> ErrorCode:
    """Prolong a session (`now_ms` is monotonic); the code says when the member has to rejoin."""
    member_id = request.member_id
    error = member_error(group, member_id, request.group_instance_id)
    if error is not NO_ERROR:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    prolong(group.members[member_id], now_ms)
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return NO_ERROR


def prolong(member: Member, now_ms: float) -> None:
    """Move the deadline; its timer, which fires earlier, will see it.

    A member that waits for its first answer keeps its long one.
    """
    if not member.is_new:
        member.session_deadline_ms = now_ms + member.session_timeout_ms


# ---- LeaveGroup


def leave_group(step: GroupStep, leaving: Sequence[Leaving]) -> list[ErrorCode]:
    """Remove members; one code for each."""
    return [_leave(step, each) for each in leaving]


def _leave(step: GroupStep, leaving: Leaving) -> ErrorCode:
    group, member_id, instance_id = step.group, leaving.member_id, leaving.group_instance_id
    if member_id == UNKNOWN_MEMBER:
        current = group.static_members.get(instance_id) if instance_id is not None else None
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        _let_go(step, group.members[current], RebalanceCause.REMOVED_BY_ADMIN, leaving.reason)
        return NO_ERROR
    if member_id in group.pending_members:
        _remove_pending(step, member_id)
        return NO_ERROR
    error = member_error(group, member_id, instance_id)
    if error is NO_ERROR:
        _let_go(step, group.members[member_id], RebalanceCause.MEMBER_LEFT, leaving.reason)
    return error


def _let_go(step: GroupStep, member: Member, why: RebalanceCause, reason: str | None) -> None:
    remove_member(step, member, by_member(why, member, reason=reason))


def remove_member(step: GroupStep, member: Member, cause: Cause) -> None:
    """Take a member out: whatever it waits for is refused, the others rebalance."""
    group = step.group
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    answer_join(step, member, refused_join(UNKNOWN_MEMBER, unknown))
    answer_sync(step, member, SyncGroupResponse(error_code=int(unknown)))
    forget_session(step, member)
    group.remove(member.member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        try_complete_join(step)
    else:
        maybe_prepare_rebalance(step, cause)


def _remove_pending(step: GroupStep, member_id: str) -> None:
    step.effects.append(CancelTimer(TimerKey(TimerKind.PENDING, member_id)))
    step.group.remove(member_id)
    try_complete_join(step)


# ---- timers


def on_timer(step: GroupStep, key: TimerKey) -> None:
    """A timer that was set has fired."""
    if key.kind is TimerKind.JOIN:
        on_join_timer(step)
    elif key.kind is TimerKind.SYNC:
        on_sync_timer(step)
    elif key.kind is TimerKind.PENDING:
        if key.member_id in step.group.pending_members:
            late = Who.of(key.member_id, None, "", "")
            step.note(expired(step.group, RemovalCause.NEVER_JOINED, late))
            _remove_pending(step, key.member_id)
    else:
        _on_session_timer(step, key)


def _on_session_timer(step: GroupStep, key: TimerKey) -> None:
    member = step.group.members.get(key.member_id)
    if member is None:
        return
    member.timer_at_ms = 0.0
    now_ms = step.now.monotonic_ms
    if member.session_deadline_ms > now_ms:
        member.timer_at_ms = member.session_deadline_ms
        step.effects.append(SetTimer(key, member.session_deadline_ms))
    elif not member.is_new and (member.join is not None or member.sync is not None):
        keep_alive(step, member)  # it waits for us; its session starts over with the answer
    else:
        timeout = f"{NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms:,}"
        step.note(expired(step.group, RemovalCause.SESSION_EXPIRED, who(member), timeout))
        remove_member(step, member, by_member(RebalanceCause.SESSION_EXPIRED, member, timeout))


def start_sessions(step: GroupStep) -> None:
    """A group was read from the log: its members get a full session to show up,
    and it rebalances if it is too large by now.
    """
    group = step.group
    for member in group.members.values():
        if not member.timer_at_ms:  # who has come since the load is heard of already
            keep_alive(step, member)
    most = step.config.group_max_size
    if len(group.members) > most:
        maybe_prepare_rebalance(step, Cause(RebalanceCause.GROUP_TOO_LARGE, detail=f"{most:,}"))


def close(step: GroupStep, code: ErrorCode) -> None:
    """Answer `code` to all who wait and end all timers: the group leaves, or is deleted."""
    send_away(step, code)
    step.group.transition_to(GroupState.DEAD, step.now.wall_ms)


def send_away(step: GroupStep, code: ErrorCode) -> None:
    """Answer `code` to all who wait and end all timers."""
    group = step.group
    for member in group.members.values():
        answer_join(step, member, refused_join(member.member_id, code))
        answer_sync(step, member, SyncGroupResponse(error_code=int(code)))
        forget_session(step, member)
    for member_id in group.pending_members:
        step.effects.append(CancelTimer(TimerKey(TimerKind.PENDING, member_id)))
    step.effects.append(CancelTimer(TimerKey(TimerKind.JOIN)))
    step.effects.append(CancelTimer(TimerKey(TimerKind.SYNC)))


def resume(step: GroupStep) -> None:
    """Go on with a group that was sent away: its members have a session to show up, those it waits
    for the time of a rebalance.
    """
    group = step.group
    for member in group.members.values():
        keep_alive(step, member)
    for member_id in group.pending_members:
        deadline = step.now.monotonic_ms + step.config.group_min_session_timeout_ms
        step.effects.append(SetTimer(TimerKey(TimerKind.PENDING, member_id), deadline))
    wait_again(step)
