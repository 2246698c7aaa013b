"""ClassicGroup: a group of the classic protocol, as one of the kinds that a coordinator keeps.

Law: what an input leads to is decided by the machine in `rebalance`, `join_sync` and `sessions`;
from here inputs find their way to it. Offsets of a live group of consumers expire once it no longer
follows their topics, those of an empty one count from when it became empty (KIP-211).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar

from kbroker.config.group_config import GroupConfig
from kbroker.coordinator.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kbroker.coordinator.group import causes
from kbroker.coordinator.group.coordinated_group import (
    Committer,
    CoordinatedGroup,
    Ending,
    Offsets,
    PlaceTaken,
)
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.join_sync import (
    JoinAttempt,
    StaticMemberStored,
    join,
    on_static_member_refused,
    on_static_member_stored,
    sync,
)
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.group.rebalance import (
    UNKNOWN_MEMBER,
    AssignmentStored,
    GroupStep,
    TimerKey,
    on_assignment_stored,
    refused_join,
)
from kbroker.coordinator.group.records import group_metadata_key
from kbroker.coordinator.group.sessions import (
    Leaving,
    close,
    heartbeat,
    leave_group,
    member_error,
    on_timer,
    prolong,
    resume,
    send_away,
    start_sessions,
)
from kbroker.coordinator.group_kinds import CLASSIC
from kbroker.coordinator.runtime.append_errors import append_errors
from kbroker.coordinator.runtime.effects import Effect, Instant, KeyValue, Reply
from kbroker.coordinator.runtime.shard import UNCONFIRMED, Shard, nothing
from kbroker.errors import NO_ERROR, ErrorCode
from kbroker.events.event import Event
from kbroker.model import TopicPartition
from kbroker.protocol.messages.describe_groups import DescribeGroupsResponse
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest

_BYTES_OF_MEMBER = 64  # beside its names and data
_METADATA_ERRORS = {
    **append_errors(too_large=ErrorCode.UNKNOWN_SERVER_ERROR),
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
}


class ClassicGroup(CoordinatedGroup):
    """A group whose members join and sync; also one that only keeps offsets."""

    __slots__ = ("_config", "_is_displaced", "group")

    kind: ClassVar[str] = CLASSIC

    def __init__(self, group: Group, home: Shard[Any], config: GroupConfig) -> None:
        super().__init__(group.group_id, home, group.offsets)
        self.group = group
        self._config = config
        self._is_displaced = False

    def step(self, now: Instant) -> GroupStep:
        """An input to the group."""
        return GroupStep(self.group, self._config, now)

    # ---- members

    def room_for_classic_members(self, _now: Instant) -> list[Effect]:
        return []

    def join(self, attempt: JoinAttempt, now: Instant) -> list[Effect]:
        step = self.step(now)
        join(step, attempt)
        return step.effects

    def sync(self, correlation: object, request: SyncGroupRequest, now: Instant) -> list[Effect]:
        step = self.step(now)
        sync(step, correlation, request)
        return step.effects

    def heartbeat(
        self, correlation: object, request: HeartbeatRequest, now: Instant
    ) -> list[Effect]:
        return [Reply(correlation, heartbeat(self.group, request, now.monotonic_ms))]

    def leave(self, correlation: object, leaving: Sequence[Leaving], now: Instant) -> list[Effect]:
        step = self.step(now)
        codes = leave_group(step, leaving)
        return [*step.effects, Reply(correlation, (NO_ERROR, codes))]

    # ---- what is shown

    @property
    def state(self) -> str:
        return self.group.state.value

    @property
    def protocol_type(self) -> str:
        return self.group.protocol_type or ""

    @property
    def member_count(self) -> int:
        return len(self.group.members)

    def described(self) -> DescribeGroupsResponse.DescribedGroup:
        group, protocol = self.group, self._told_protocol()
        return DescribeGroupsResponse.DescribedGroup(
            group_id=self.group_id,
            group_state=group.state.value,
            protocol_type=self.protocol_type,
            protocol_data=protocol or "",
            members=[
                DescribeGroupsResponse.DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=b"" if protocol is None else member.metadata(protocol),
                    member_assignment=b"" if protocol is None else member.assignment,
                )
                for member in group.members.values()
            ],
        )

    def described_bytes(self) -> int:
        protocol = self._told_protocol()
        members = self.group.members.values()
        size_bytes = sum(len(member.member_id) + len(member.client_id) for member in members)
        if protocol is not None:
            size_bytes += sum(
                len(member.metadata(protocol)) + len(member.assignment) for member in members
            )
        return size_bytes + _BYTES_OF_MEMBER * len(members)

    def _told_protocol(self) -> str | None:
        """Protocol, metadata and assignments are shown once the group is stable."""
        return self.group.protocol_name if self.group.state is GroupState.STABLE else None

    def moved(self, *, is_here: bool) -> Event | None:
        return causes.moved(self.group, is_here=is_here) if self.group.members else None

    # ---- its life

    @property
    def is_empty(self) -> bool:
        return self.group.state is GroupState.EMPTY

    @property
    def is_expected(self) -> bool:
        return bool(self.group.pending_members)

    @property
    def version(self) -> int:
        return self.group.generation_id

    @property
    def is_recorded(self) -> bool:
        group = self.group
        return bool(
            group.generation_id or group.members or group.pending_members or group.has_record
        )

    def ending(self) -> Ending:
        """A group that only kept offsets (generation 0) has no record of its own to end."""
        is_recorded = self.group.generation_id > 0 or self.group.has_record
        records = [KeyValue(group_metadata_key(self.group_id), None)] if is_recorded else []
        return Ending(records, lambda _part: None)

    def started(self, now: Instant) -> list[Effect]:
        step = self.step(now)
        start_sessions(step)
        return step.effects

    def closed(self, code: ErrorCode, now: Instant) -> list[Effect]:
        step = self.step(now)
        close(step, code)
        return step.effects

    def displaced(self, now: Instant) -> list[Effect]:
        self._is_displaced = True
        step = self.step(now)
        send_away(step, ErrorCode.REBALANCE_IN_PROGRESS)
        return step.effects

    def restored(self, now: Instant) -> list[Effect]:
        self._is_displaced = False
        step = self.step(now)
        resume(step)
        return step.effects

    def replay(self, _token: Hashable) -> Callable[[int], None]:
        """As long as the log may refuse that this group is here, nothing it writes may stay without
        that.
        """
        return nothing if self.before is None else _rests_on_what_was_before

    def timer_fired(self, key: Hashable, now: Instant) -> list[Effect]:
        assert isinstance(key, TimerKey)
        step = self.step(now)
        on_timer(step, key)
        return step.effects

    def append_ended(self, token: Hashable, error: ErrorCode, now: Instant) -> list[Effect]:
        if isinstance(token, PlaceTaken):
            return _place_taken(token, error)
        is_in_log = error is NO_ERROR or error in UNCONFIRMED
        error = _METADATA_ERRORS.get(error, error)
        step = self.step(now)
        if isinstance(token, AssignmentStored):
            on_assignment_stored(step, token, error)
        elif isinstance(token, StaticMemberStored) and self._is_displaced:
            refused = refused_join("", ErrorCode.REBALANCE_IN_PROGRESS)
            step.effects.append(Reply(token.attempt.correlation, refused))
        elif isinstance(token, StaticMemberStored):
            heard = on_static_member_stored if is_in_log else on_static_member_refused
            heard(step, token, error)
        return step.effects

    # ---- offsets

    def commit_error(self, committer: Committer, _offsets: Offsets, now_ms: float) -> ErrorCode:
        """Without a generation everybody may commit while the group is empty. During the join phase
        members may still commit, so that they lose no work; after it, they must have taken notice
        of the new generation.
        """
        group = self.group
        _, member_id, instance_id, generation_id, _ = committer
        if generation_id < 0 and group.state is GroupState.EMPTY:
            return NO_ERROR
        if generation_id < 0 and member_id == UNKNOWN_MEMBER and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = member_error(group, member_id, instance_id)
        if error is not NO_ERROR:
            return error
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        prolong(group.members[member_id], now_ms)
        return NO_ERROR

    def transactional_commit_error(self, committer: Committer, _offsets: Offsets) -> ErrorCode:
        """A producer that names no member of the group is trusted, as old ones name none."""
        group = self.group
        _, member_id, instance_id, generation_id, _ = committer
        names_member = generation_id >= 0 or member_id != UNKNOWN_MEMBER or instance_id is not None
        if not names_member or (generation_id < 0 and group.state is GroupState.EMPTY):
            return NO_ERROR
        error = member_error(group, member_id, instance_id)
        if error is NO_ERROR and generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    @property
    def may_lose_offsets(self) -> bool:
        """Return false for a live group of another protocol than that of consumers: nobody knows
        which topics it follows.
        """
        return self.is_empty or self.group.protocol_type == CONSUMER_PROTOCOL_TYPE

    def follows(self, topic: str) -> bool:
        followed = self.group.subscribed_topics
        return not self.is_empty and (followed is None or topic in followed)

    def expired(
        self, now_ms: int, retention_ms: int, among: Iterable[TopicPartition] | None = None
    ) -> list[TopicPartition]:
        group = self.group
        since: Callable[[CommittedOffset], int] = _commit_time
        kept: frozenset[str] = frozenset()
        if group.is_simple:
            pass
        elif group.state is GroupState.EMPTY:
            empty_since_ms = group.current_state_timestamp_ms
            if empty_since_ms is not None:
                since = lambda _value: empty_since_ms  # noqa: E731 - one of two ways to count
        elif (
            group.state is GroupState.STABLE
            and group.protocol_type == CONSUMER_PROTOCOL_TYPE
            and group.subscribed_topics is not None
        ):
            kept = group.subscribed_topics
        else:
            return []
        return self.offsets.expired(now_ms, retention_ms, since, kept, among)


def _place_taken(token: PlaceTaken, error: ErrorCode) -> list[Effect]:
    if token.correlation is None:
        return []
    return [Reply(token.correlation, token.refused(error) if error else token.response)]


def _rests_on_what_was_before(_base_offset: int) -> None:
    """Change nothing, as `nothing` does; such a write is refused with those before it."""


def _commit_time(value: CommittedOffset) -> int:
    return value.commit_timestamp_ms
