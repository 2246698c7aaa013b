"""JoinGroup and SyncGroup, in each state of a group.

Pure. Law: input in and effects out, so that every state can be tested without a broker. JoinGroup:
KIP-62 (rebalance timeout), KIP-345 (static members, here and in KIP-814 skip_assignment), KIP-394
(member id first), KIP-429 needs nothing of the broker. SyncGroup: KIP-559 (protocol checks).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbroker.coordinator.group.causes import by_member, rejoined, replaced
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.member import Member, Protocols
from kbroker.coordinator.group.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    UNKNOWN_MEMBER,
    AssignmentStored,
    GroupStep,
    TimerKey,
    TimerKind,
    answer_join,
    answer_sync,
    assigned,
    forget_session,
    joined_answer,
    keep_alive,
    maybe_prepare_rebalance,
    member_list,
    prepare_rebalance,
    refused_join,
    sync_received,
    try_complete_join,
)
from kbroker.coordinator.group.records import group_metadata
from kbroker.coordinator.group.sessions import member_error
from kbroker.coordinator.runtime.effects import Append, CancelTimer, Reply, SetTimer
from kbroker.errors import ErrorCode
from kbroker.events.group_events import RebalanceCause
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from kbroker.coordinator.consumer_group.subscribed_patterns import Visible


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class JoinAttempt:
    """A JoinGroup request with what the shell knows about it."""

    correlation: object
    request: JoinGroupRequest
    api_version: int
    client_id: str
    client_host: str
    new_member_id: str  # to be used if the member has none yet
    visible: Visible | None = None  # takes out topics that the member may not see

    @property
    def protocols(self) -> Protocols:
        """Names and metadata, the favourite first."""
        return [(protocol.name, protocol.metadata) for protocol in self.request.protocols]

    @property
    def rebalance_timeout_ms(self) -> int:
        """Version 0 knew one timeout for both."""
        request = self.request
        return request.rebalance_timeout_ms if self.api_version > 0 else request.session_timeout_ms


@dataclass(frozen=True, slots=True, eq=False)
class StaticMemberStored:
    """Token of the record that gives a static member's new id to the log, and what the group was to
    be like before and after it when that was decided.
    """

    attempt: JoinAttempt
    before: Mapping[str, str]  # group instance id -> id of a member
    after: Group
    old_leader_id: str

    def is_true_to(self, group: Group) -> bool:
        """Whether the record says what the group is once it has taken the member in."""
        return (
            group.state is GroupState.STABLE
            and group.generation_id == self.after.generation_id
            and group.static_members == self.before
        )


# ---- JoinGroup


def join(step: GroupStep, attempt: JoinAttempt) -> None:
    """Let a member in, or back in; it is answered now, or when the join phase ends."""
    group, request = step.group, attempt.request
    member_id = request.member_id
    if not _has_room(group, member_id, step.config.group_max_size):
        group.remove(member_id)
        _refuse(step, attempt, UNKNOWN_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED)
    elif not group.supports_protocols(request.protocol_type, [p.name for p in request.protocols]):
        _refuse(step, attempt, member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif member_id == UNKNOWN_MEMBER:
        _join_as_new_member(step, attempt)
    else:
        _join_as_known_member(step, attempt)
    try_complete_join(step)


def _has_room(group: Group, member_id: str, max_size: int) -> bool:
    """Count, while members rejoin, those who are back: a group over its limit sheds the last."""
    if group.state is GroupState.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        is_waiting = member is not None and member.join is not None
        return is_waiting or group.awaiting_join_count() < max_size
    return member is not None or len(group.members) < max_size


def _refuse(step: GroupStep, attempt: JoinAttempt, member_id: str, code: ErrorCode) -> None:
    step.effects.append(Reply(attempt.correlation, refused_join(member_id, code)))


def _join_as_new_member(step: GroupStep, attempt: JoinAttempt) -> None:
    group, instance_id = step.group, attempt.request.group_instance_id
    if instance_id is not None:
        if instance_id in group.static_members:
            _replace_static_member(step, attempt, instance_id)
        else:
            _add_member(step, attempt, attempt.new_member_id)
    elif attempt.api_version >= 4:
        group.pending_members.add(attempt.new_member_id)
        deadline = step.now.monotonic_ms + attempt.request.session_timeout_ms
        key = TimerKey(TimerKind.PENDING, attempt.new_member_id)
        step.effects.append(SetTimer(key, deadline))
        _refuse(step, attempt, attempt.new_member_id, ErrorCode.MEMBER_ID_REQUIRED)
    else:
        _add_member(step, attempt, attempt.new_member_id)


def _join_as_known_member(step: GroupStep, attempt: JoinAttempt) -> None:
    group, request = step.group, attempt.request
    member_id = request.member_id
    if member_id in group.pending_members:
        if request.group_instance_id is not None:  # it was handed out to a dynamic member
            _refuse(step, attempt, UNKNOWN_MEMBER, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        step.effects.append(CancelTimer(TimerKey(TimerKind.PENDING, member_id)))
        _add_member(step, attempt, member_id)
        return
    error = member_error(group, member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        _refuse(step, attempt, member_id, error)
    elif group.state is GroupState.EMPTY:
        _refuse(step, attempt, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    elif _changes_nothing(group, group.members[member_id], attempt.protocols):
        step.effects.append(Reply(attempt.correlation, joined_answer(group, member_id)))
    else:
        member = group.members[member_id]
        cause = rejoined(member, attempt.protocols, request.reason)
        _update_member(step, attempt, member)
        maybe_prepare_rebalance(step, cause)


def _changes_nothing(group: Group, member: Member, protocols: Protocols) -> bool:
    """A repeated JoinGroup is answered from the current generation.

    The leader's counts as a wish to rebalance once the group is stable.
    """
    if group.state is GroupState.PREPARING_REBALANCE or member.protocols != protocols:
        return False
    return group.state is GroupState.COMPLETING_REBALANCE or not group.is_leader(member.member_id)


def _add_member(step: GroupStep, attempt: JoinAttempt, member_id: str) -> None:
    group, request = step.group, attempt.request
    member = Member(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=attempt.client_id,
        client_host=attempt.client_host,
        rebalance_timeout_ms=attempt.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=attempt.protocols,
        is_new=True,
        join=attempt.correlation,
    )
    if group.initial_join_remaining_ms >= 0:
        group.new_member_added = True
    group.add(member)
    keep_alive(step, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    cause = by_member(RebalanceCause.NEW_MEMBER, member, reason=request.reason)
    maybe_prepare_rebalance(step, cause)


def _update_member(step: GroupStep, attempt: JoinAttempt, member: Member) -> None:
    """A second JoinGroup of a member replaces the first, whose connection is most likely gone."""
    answer_join(step, member, refused_join(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
    _set_wishes(step.group, member, attempt)
    step.group.hold_join(member, attempt.correlation)


def _set_wishes(group: Group, member: Member, attempt: JoinAttempt) -> None:
    group.set_protocols(member, attempt.protocols)
    member.rebalance_timeout_ms = attempt.rebalance_timeout_ms
    member.session_timeout_ms = attempt.request.session_timeout_ms


# ---- static members that come back with a new process (KIP-345)


def _replace_static_member(step: GroupStep, attempt: JoinAttempt, instance_id: str) -> None:
    """A stable group goes on without a rebalance as long as its protocol stays; it takes the new
    process in when that is stored, and until then the old one is its member.
    """
    group = step.group
    if group.state is GroupState.STABLE:
        before = group.becoming or group
        after = before.copy(instance_id)
        _set_wishes(after, after.replace_static_member(instance_id, attempt.new_member_id), attempt)
        # Those who are on their way may have left no protocol that this one supports as well.
        if after.candidate_protocols() and after.select_protocol() == group.protocol_name:
            _store_static_member(step, attempt, before, after)
            return
    was_stable = group.state is GroupState.STABLE
    member = _take_over(step, attempt, instance_id)
    if group.state is not GroupState.PREPARING_REBALANCE:
        # In CompletingRebalance the leader may be assigning to the id that is gone.
        detail = "with other protocols" if was_stable else "while assignments were being made"
        why, reason = RebalanceCause.STATIC_MEMBER_REPLACED, attempt.request.reason
        prepare_rebalance(step, by_member(why, member, detail, reason))


def _store_static_member(
    step: GroupStep, attempt: JoinAttempt, before: Group, after: Group
) -> None:
    """The record holds the whole group: those who are on their way to the log are in it too."""
    token = StaticMemberStored(
        attempt=attempt,
        before=dict(before.static_members),
        after=after,
        old_leader_id=before.leader_id or "",
    )
    step.group.becoming = after
    assignments = {each.member_id: each.assignment for each in after.members.values()}
    step.effects.append(Append((group_metadata(after, assignments),), token))


def _take_over(step: GroupStep, attempt: JoinAttempt, instance_id: str) -> Member:
    """The new process is the member now, the old one is fenced."""
    group = step.group
    member = group.members[group.static_members[instance_id]]
    fenced = ErrorCode.FENCED_INSTANCE_ID
    answer_join(step, member, refused_join(member.member_id, fenced))
    answer_sync(step, member, SyncGroupResponse(error_code=int(fenced)))
    forget_session(step, member)
    group.replace_static_member(instance_id, attempt.new_member_id)
    _update_member(step, attempt, member)
    keep_alive(step, member)
    return member


def on_static_member_stored(step: GroupStep, token: StaticMemberStored, error: ErrorCode) -> None:
    """Take the member in: its new id is in the log. If that was not confirmed in time, the member
    gets `error` and comes back for another id. Kafka then has the old id in its memory, and the new
    one in its log.

    A group that has changed meanwhile decides again.
    """
    group, attempt = step.group, token.attempt
    if group.state is GroupState.DEAD:
        _refuse(step, attempt, attempt.new_member_id, ErrorCode.NOT_COORDINATOR)
    elif token.is_true_to(group):
        if group.becoming is token.after:
            group.becoming = None
        instance_id = attempt.request.group_instance_id or ""
        former_id = group.static_members[instance_id]
        member = _take_over(step, attempt, instance_id)
        step.note(replaced(group, member, former_id))
        is_stored = error is ErrorCode.NONE
        response = _rejoined(group, token) if is_stored else _not_stored(group, token, error)
        answer_join(step, member, response)
    else:
        join(step, attempt)


def on_static_member_refused(step: GroupStep, token: StaticMemberStored, error: ErrorCode) -> None:
    """The new id cannot be in the log: the member keeps the one it has."""
    group, attempt = step.group, token.attempt
    if group.state is GroupState.DEAD:
        _refuse(step, attempt, attempt.new_member_id, ErrorCode.NOT_COORDINATOR)
        return
    group.becoming = None
    step.effects.append(Reply(attempt.correlation, _not_stored(group, token, error)))


def _not_stored(group: Group, token: StaticMemberStored, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=int(error),
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=token.old_leader_id,
        member_id=UNKNOWN_MEMBER,
    )


def _rejoined(group: Group, token: StaticMemberStored) -> JoinGroupResponse:
    """Answer a leader that need not assign: from version 9 it learns that it leads.

    Before, it must not notice that.
    """
    member_id = token.attempt.new_member_id
    response = joined_answer(group, member_id)
    if token.attempt.api_version >= 9:
        is_leader = group.is_leader(member_id)
        response.skip_assignment = is_leader
        response.members = member_list(group) if is_leader else []
    else:
        response.leader = token.old_leader_id
        response.members = []
    return response


# ---- SyncGroup


def sync(step: GroupStep, correlation: object, request: SyncGroupRequest) -> None:
    """Give a member its assignment; the leader's request brings everybody's."""
    group = step.group
    error = _sync_error(group, request)
    if error is not ErrorCode.NONE:
        step.effects.append(Reply(correlation, SyncGroupResponse(error_code=int(error))))
        return
    sync_received(step, request.member_id)
    member = group.members[request.member_id]
    if group.state is GroupState.STABLE:
        step.effects.append(Reply(correlation, assigned(group, member)))
        keep_alive(step, member)
    elif group.state is GroupState.COMPLETING_REBALANCE:
        answer_sync(step, member, refused_sync(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync = correlation
        if group.is_leader(request.member_id):
            _store_assignments(step, request)
    else:
        step.effects.append(Reply(correlation, refused_sync(ErrorCode.REBALANCE_IN_PROGRESS)))


def refused_sync(code: ErrorCode) -> SyncGroupResponse:
    """SyncGroup's answer to who does not get an assignment."""
    return SyncGroupResponse(error_code=int(code))


def _sync_error(group: Group, request: SyncGroupRequest) -> ErrorCode:
    error = member_error(group, request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    asked_type, asked_name = request.protocol_type, request.protocol_name
    if asked_type is not None and asked_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if asked_name is not None and asked_name != group.protocol_name:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _store_assignments(step: GroupStep, request: SyncGroupRequest) -> None:
    """Members the leader left out get an empty assignment."""
    group = step.group
    given = {each.member_id: each.assignment for each in request.assignments}
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    token = AssignmentStored(group.generation_id, assignments)
    step.effects.append(Append((group_metadata(group, assignments),), token))
