"""Sessions of members of a consumer group, and the time that they have to give up partitions, or,
if they speak the classic protocol, to join and to sync.

Pure. Law: a heartbeat moves a deadline and, mostly, nothing else; the timer looks at it when it
fires. A deadline before the timer, as the group's session time has become shorter, moves that too.
A timer belongs to a member id, and does nothing to who has come in its place. Timers are kept
beside the log, so a refused write may leave one that finds nothing to do; one that has led to it is
set again.
"""

from __future__ import annotations

from kbroker.coordinator.consumer_group.member import Member
from kbroker.coordinator.consumer_group.record_values import MemberState
from kbroker.coordinator.consumer_group.removal import remove_members
from kbroker.coordinator.consumer_group.step import (
    ConsumerStep,
    Session,
    TimerKey,
    TimerKind,
)
from kbroker.coordinator.runtime.effects import CancelTimer, SetTimer
from kbroker.events.consumer_group_events import FencingCause

_AGAIN_MS = 500.0


def keep_alive(step: ConsumerStep, member_id: str, timeout_ms: float | None = None) -> None:
    """A member was heard of: its session lasts from now. `timeout_ms` of a classic member, which
    chooses its own.
    """
    sessions = step.attendance.sessions
    session = sessions.get(member_id)
    if session is None:
        session = sessions[member_id] = Session()
    lasts_ms = step.settings.session_timeout_ms if timeout_ms is None else timeout_ms
    deadline = session.deadline_ms = step.now.monotonic_ms + lasts_ms
    if session.timer_ms is None or deadline < session.timer_ms:
        session.timer_ms = deadline
        step.effects.append(SetTimer(TimerKey(TimerKind.SESSION, member_id), deadline))


# ---- joins and syncs of classic members


def await_join(step: ConsumerStep, member: Member) -> None:
    """A classic member has to join again: it has its rebalance time-out for that, from the first
    time on that it was asked.
    """
    key = TimerKey(TimerKind.JOIN, member.member_id)
    if key not in step.attendance.awaited:
        _await(step, key, member.metadata.rebalance_timeout_ms)


def joined(step: ConsumerStep, member: Member) -> None:
    """A classic member has joined: it has its rebalance time-out to fetch its assignment."""
    _await_no_more(step, TimerKey(TimerKind.JOIN, member.member_id))
    timeout_ms = member.metadata.rebalance_timeout_ms
    _await(step, TimerKey(TimerKind.SYNC, member.member_id), timeout_ms)
    keep_classic_alive(step, member)


def synced(step: ConsumerStep, member: Member) -> None:
    """A classic member has fetched its assignment."""
    _await_no_more(step, TimerKey(TimerKind.SYNC, member.member_id))
    keep_classic_alive(step, member)


def keep_classic_alive(step: ConsumerStep, member: Member) -> None:
    """A classic member was heard of."""
    keep_alive(step, member.member_id, _session_timeout_ms(member))


def _session_timeout_ms(member: Member) -> int | None:
    classic = member.metadata.classic_member_metadata
    return None if classic is None else classic.session_timeout_ms


def _await(step: ConsumerStep, key: TimerKey, timeout_ms: float) -> None:
    step.attendance.awaited.add(key)
    step.effects.append(SetTimer(key, step.now.monotonic_ms + timeout_ms))


def _await_no_more(step: ConsumerStep, key: TimerKey) -> None:
    step.attendance.missed.discard(key)
    if key in step.attendance.awaited:
        step.attendance.awaited.discard(key)
        step.effects.append(CancelTimer(key))


# ---- members that have to give up partitions


def watch_revocation(step: ConsumerStep, member: Member) -> None:
    """A member has to give up partitions: it has its rebalance time-out for that."""
    _watch(step, member, member.metadata.rebalance_timeout_ms)


def _watch(step: ConsumerStep, member: Member, timeout_ms: float) -> None:
    step.attendance.revoking_epochs[member.member_id] = member.epoch
    deadline = step.now.monotonic_ms + timeout_ms
    step.effects.append(SetTimer(TimerKey(TimerKind.REBALANCE, member.member_id), deadline))


def start(step: ConsumerStep) -> None:
    """The group was loaded: members get a session, and time to give up partitions, to show up."""
    for member in step.group.members.values():
        keep_classic_alive(step, member)
        if member.current.state is MemberState.UNREVOKED_PARTITIONS:
            watch_revocation(step, member)


def settled(step: ConsumerStep) -> None:
    """The log has what timers led to: forget those of members that are gone."""
    missed = step.attendance.missed
    for key in [each for each in missed if each.member_id not in step.group.members]:
        missed.discard(key)


def restart(step: ConsumerStep) -> None:
    """The log has refused what timers led to: those whose time was up are looked at again soon."""
    attendance = step.attendance
    for member_id, member in step.group.members.items():
        if member_id not in attendance.sessions:
            deadline = step.now.monotonic_ms + _AGAIN_MS
            attendance.sessions[member_id] = Session(deadline, deadline)
            step.effects.append(SetTimer(TimerKey(TimerKind.SESSION, member_id), deadline))
        is_revoking = member.current.state is MemberState.UNREVOKED_PARTITIONS
        if is_revoking and member_id not in attendance.revoking_epochs:
            _watch(step, member, _AGAIN_MS)
    for key in attendance.missed:
        if key.member_id in step.group.members:
            _await(step, key, _AGAIN_MS)
    attendance.missed.clear()


def close(step: ConsumerStep) -> None:
    """The group is not here any more: end all timers."""
    attendance = step.attendance
    for member_id, session in attendance.sessions.items():
        if session.timer_ms is not None:
            step.effects.append(CancelTimer(TimerKey(TimerKind.SESSION, member_id)))
    for member_id in attendance.revoking_epochs:
        step.effects.append(CancelTimer(TimerKey(TimerKind.REBALANCE, member_id)))
    step.effects += [CancelTimer(key) for key in attendance.awaited]
    attendance.sessions.clear()
    attendance.revoking_epochs.clear()
    attendance.job = attendance.pattern_job = None
    attendance.awaited.clear()
    attendance.missed.clear()


def on_timer(step: ConsumerStep, key: TimerKey) -> None:
    """A timer that was set has fired."""
    member = step.group.members.get(key.member_id)
    if key.kind is TimerKind.SESSION:
        _on_session_timer(step, key, member)
    elif key.kind is TimerKind.REBALANCE:
        _on_rebalance_timer(step, key, member)
    elif key in step.attendance.awaited:
        step.attendance.awaited.discard(key)
        if member is not None and member.is_classic:
            _on_missed(step, key, member)


def _on_missed(step: ConsumerStep, key: TimerKey, member: Member) -> None:
    """A classic member has not joined, or not synced, in its time."""
    step.attendance.missed.add(key)
    is_join = key.kind is TimerKind.JOIN
    cause = FencingCause.JOIN_TIMEOUT if is_join else FencingCause.SYNC_TIMEOUT
    step.late[member.member_id] = cause, str(member.metadata.rebalance_timeout_ms)
    remove_members(step, [member])


def _on_session_timer(step: ConsumerStep, key: TimerKey, member: Member | None) -> None:
    session = step.attendance.sessions.get(key.member_id)
    if session is None:
        return
    if session.deadline_ms > step.now.monotonic_ms:
        session.timer_ms = session.deadline_ms
        step.effects.append(SetTimer(key, session.deadline_ms))
        return
    del step.attendance.sessions[key.member_id]
    if member is not None:
        timeout_ms = _session_timeout_ms(member) or step.settings.session_timeout_ms
        step.late[member.member_id] = FencingCause.SESSION_EXPIRED, str(timeout_ms)
        remove_members(step, [member])


def _on_rebalance_timer(step: ConsumerStep, key: TimerKey, member: Member | None) -> None:
    epoch = step.attendance.revoking_epochs.pop(key.member_id, None)
    if member is None or member.current.state is not MemberState.UNREVOKED_PARTITIONS:
        return
    if member.epoch == epoch:
        timeout_ms = member.metadata.rebalance_timeout_ms
        step.late[member.member_id] = FencingCause.REBALANCE_TIMEOUT, str(timeout_ms)
        remove_members(step, [member])
    else:  # it is back where it was, as the log has refused what it had come to
        watch_revocation(step, member)
