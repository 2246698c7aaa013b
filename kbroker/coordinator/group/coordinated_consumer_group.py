"""CoordinatedConsumerGroup: a group of the consumer protocol (KIP-848), as one of the kinds that a
coordinator keeps.

Law: what the machine decides is written as one batch, enters the group when the log takes it, and
is answered when it is stored; an answer that writes nothing waits for what it rests on. If a write
is refused, no target that is being computed on top of it counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from kbroker.coordinator.consumer_group import classic_members, sessions
from kbroker.coordinator.consumer_group.assignors.assignor import Assignment, AssignorError
from kbroker.coordinator.consumer_group.changes import Change, removal_of_group, to_write, written
from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.happenings import arrival, events_of
from kbroker.coordinator.consumer_group.record_values import RecordKind
from kbroker.coordinator.consumer_group.step import (
    Attendance,
    ConsumerStep,
    PatternJob,
    Surroundings,
    TargetJob,
    TimerKey,
)
from kbroker.coordinator.consumer_group.subscribed_patterns import (
    Found,
    let_patterns_wait,
    on_resolved,
)
from kbroker.coordinator.consumer_group.target_assignment import (
    TOO_LARGE,
    on_computed,
    target_failed,
)
from kbroker.coordinator.group import consumer_group_commits as commits
from kbroker.coordinator.group.classic_successor import classic_successor, empty_successor
from kbroker.coordinator.group.consumer_group_refusals import (
    Refused,
    refusal_of,
    refused_code,
    refused_join_of,
    refused_leave_of,
    refused_sync_of,
)
from kbroker.coordinator.group.coordinated_group import (
    Beside,
    Committer,
    CoordinatedGroup,
    Ending,
    Offsets,
    PlaceTaken,
)
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.join_sync import JoinAttempt
from kbroker.coordinator.group.offsets import CommittedOffset, GroupOffsets
from kbroker.coordinator.group.protocol_change import upgraded
from kbroker.coordinator.group.rebalance import refused_join
from kbroker.coordinator.group.sessions import Leaving
from kbroker.coordinator.group_kinds import CONSUMER, ConsumerGroupState
from kbroker.coordinator.runtime.effects import (
    Append,
    Compute,
    Effect,
    Happened,
    Instant,
    Reply,
    TakePlace,
)
from kbroker.coordinator.runtime.pending_reply import PendingReply
from kbroker.coordinator.runtime.shard import UNCONFIRMED, Shard
from kbroker.errors import NO_ERROR, ErrorCode, KafkaError
from kbroker.events.event import Event
from kbroker.events.group_events import CoordinatorMoved
from kbroker.model import TopicPartition
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from kbroker.coordinator.consumer_group.description import Description

PROTOCOL_TYPE = "consumer"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Decided:
    """Token of the changes of one step, and what is answered once they are stored."""

    changes: tuple[Change, ...]
    correlation: object | None = None
    response: Any = None
    refused: Refused = refusal_of
    events: Sequence[Event] = ()  # that happen then


class Keeper(Protocol):
    """The maker of these groups, as far as they know it."""

    given: Surroundings

    def follow(self, topics: Iterable[str], group_id: str) -> None:
        """A group is to hear of changes of topics."""
        ...

    async def resolved(self, resolve: Callable[[], Awaitable[Found]]) -> Found:
        """Return the topics of patterns, once it is their turn."""
        ...

    def own_target(self, group_id: str, job: TargetJob) -> Awaitable[Mapping[str, Assignment]]:
        """The target of each member, from an assignor of the operator's. Raises AssignorError."""
        ...


class CoordinatedConsumerGroup(CoordinatedGroup):
    """A group to whose members the coordinator assigns partitions."""

    __slots__ = ("_keeper", "attendance", "given", "group")

    kind: ClassVar[str] = CONSUMER
    outlives_its_offsets: ClassVar[bool] = True  # as in Kafka 4.3

    def __init__(
        self,
        group: ConsumerGroup,
        home: Shard[Any],
        offsets: GroupOffsets,
        keeper: Keeper,
    ) -> None:
        super().__init__(group.group_id, home, offsets)
        self._keeper = keeper
        self.group = group
        self.given = keeper.given
        self.attendance = Attendance()

    # ---- steps

    def step(self, now: Instant) -> ConsumerStep:
        """An input to the group."""
        return self._step_of(self.group, now)

    def _step_of(self, group: ConsumerGroup, now: Instant) -> ConsumerStep:
        settings = self.given.settings_of(self.group_id)
        most_bytes = self.home.max_batch_bytes
        return ConsumerStep(group, self.attendance, self.given, settings, now, most_bytes)

    def step_as_successor(self, classic: Group, now: Instant) -> tuple[list[Change], ConsumerStep]:
        """An input to the group that a classic one, empty or not, is about to become, after the
        changes that make it of that one. It is decided upon a draft of the group; this one changes
        when the log takes them all. Raises KafkaError if the classic group cannot be of this kind.
        """
        is_empty = classic.state is GroupState.EMPTY
        changes = [] if is_empty else upgraded(classic, self.given)
        draft = ConsumerGroup(self.group_id)
        for change in changes:
            draft.apply(change)
        step = self._step_of(draft, now)
        step.needs_target = classic.state is not GroupState.STABLE  # assignments are old, or none
        sessions.start(step)
        return changes, step

    def succeeding(
        self,
        classic: CoordinatedGroup,
        upgrade: list[Change],
        step: ConsumerStep,
        correlation: object,
        response: Any,
    ) -> list[Effect]:
        """Return what comes of such a step."""
        changes = (*upgrade, *step.changes)
        ending = classic.ending().records
        records = to_write(self.group_id, changes, self.given.large_write, ending)
        decided = Decided(changes, correlation, response, events=events_of(step))
        append = Append(records, decided)
        return [TakePlace(self, append, tuple(step.effects))]

    def concluded(
        self,
        step: ConsumerStep,
        correlation: object | None = None,
        response: Any = None,
        refused: Refused = refusal_of,
    ) -> list[Effect]:
        """Return what comes of a step: its effects, its changes as one write, and the answer."""
        effects = step.effects
        if step.downgrade is not None:
            self.undone(step)
            token = PlaceTaken(correlation, response, refused)
            return [classic_successor(step, self.home, self.offsets, token)]
        if step.changes:
            changes = tuple(step.changes)
            records = to_write(self.group_id, changes, self.given.large_write)
            decided = Decided(changes, correlation, response, refused, events_of(step))
            effects.append(Append(records, decided, is_answered=correlation is not None))
        elif correlation is not None:
            effects += self._when_stored(correlation, response, refused)
        return effects

    def undone(self, step: ConsumerStep) -> None:
        """A step was refused: nobody begins the work that it has asked for."""
        for effect in step.effects:
            if isinstance(effect, Compute) and effect.token is self.attendance.job:
                self.attendance.job = None
            elif isinstance(effect, Compute) and effect.token is self.attendance.pattern_job:
                self.attendance.pattern_job = None

    def _when_stored(self, correlation: object, response: Any, refused: Refused) -> list[Effect]:
        """The answer to what changed nothing waits for what it rests on."""
        number = self.unstored()
        if number is None:
            return [Reply(correlation, response)]

        def heard(error: ErrorCode) -> None:
            assert isinstance(correlation, PendingReply)
            correlation.answer(response if error is NO_ERROR else refused(error))

        error = self.home.wait_for(number, heard)
        return [] if error is None else [Reply(correlation, refused(error))]

    def unstored(self) -> int | None:
        """The newest write that an answer of now rests on; None if it rests on none."""
        number = self.group.last_unstored_write
        if number is None:
            return None
        self.home.catch_up()
        return self.group.last_unstored_write

    def replay(self, token: Hashable) -> Callable[[int], None]:
        assert isinstance(token, Decided)
        group, changes = self.group, token.changes

        def replay(_base_offset: int) -> None:
            for change in changes:
                group.apply(change)
            self._keeper.follow(_topics_of(changes), self.group_id)

        return replay

    def has_left(self, topic: str) -> bool:
        """Whether nobody here subscribes to a topic, and no refused write brings that back."""
        return not self.group.may_follow(topic)

    def append_ended(self, token: Hashable, error: ErrorCode, now: Instant) -> list[Effect]:
        assert isinstance(token, Decided)
        step = self.step(now)
        if error is NO_ERROR or error in UNCONFIRMED:
            if self.attendance.failed is not None and _has_target(token.changes):
                self.attendance.failed = None
            step.effects += map(Happened, token.events)
            reached = arrival(self.group, self.attendance)
            if reached is not None:
                step.effects.append(Happened(reached))
            sessions.settled(step)
        else:
            self._write_refused(step, token, error)
        if token.correlation is not None:
            response = token.response if error is NO_ERROR else token.refused(error)
            step.effects.append(Reply(token.correlation, response))
        return step.effects

    def _write_refused(self, step: ConsumerStep, token: Decided, error: ErrorCode) -> None:
        self.attendance.job = None
        if any(kind is RecordKind.REGULAR_EXPRESSION and value for kind, _, value in token.changes):
            let_patterns_wait(step)
        if _has_target(token.changes):
            is_too_large = refused_code(error) is ErrorCode.UNKNOWN_SERVER_ERROR
            target_failed(step, TOO_LARGE if is_too_large else None)
        sessions.restart(step)

    def timer_fired(self, key: Hashable, now: Instant) -> list[Effect]:
        assert isinstance(key, TimerKey)
        step = self.step(now)
        sessions.on_timer(step, key)
        return self.concluded(step)

    async def worked(self, effect: Compute, beside: Beside) -> Any:
        job = effect.token
        if isinstance(job, PatternJob):
            return await self._keeper.resolved(partial(super().worked, effect, beside))
        if not isinstance(job, TargetJob) or not job.is_own:
            return await super().worked(effect, beside)
        with suppress(AssignorError):  # the log has it
            return await self._keeper.own_target(self.group_id, job)
        return None

    def computed(self, token: Hashable, found: Any, now: Instant) -> list[Effect]:
        """A target was computed beside the loop, or patterns were resolved; None if that failed."""
        step = self.step(now)
        if isinstance(token, PatternJob):
            on_resolved(step, token, found)
        else:
            assert isinstance(token, TargetJob)
            on_computed(step, token, found)
        return self.concluded(step)

    def started(self, now: Instant) -> list[Effect]:
        self._keeper.follow(self.group.topics(), self.group_id)
        self.attendance.must_look_at_topics = True  # nobody has said so far what changed
        step = self.step(now)
        arrival(self.group, self.attendance)  # which is not news
        sessions.start(step)
        return self.concluded(step)

    def closed(self, _code: ErrorCode, now: Instant) -> list[Effect]:
        step = self.step(now)
        sessions.close(step)
        return step.effects

    def displaced(self, now: Instant) -> list[Effect]:
        step = self.step(now)
        sessions.close(step)
        return step.effects

    def restored(self, now: Instant) -> list[Effect]:
        self._keeper.follow(self.group.topics(), self.group_id)
        self.attendance.must_look_at_topics = True
        return self.started(now)

    # ---- members of the classic protocol

    def room_for_classic_members(self, now: Instant) -> list[Effect]:
        """An empty group becomes a classic one."""
        if self.group.members:
            return []
        step = self.step(now)
        return [empty_successor(step, self.home, self.offsets, PlaceTaken())]

    def join(self, attempt: JoinAttempt, now: Instant) -> list[Effect]:
        step = self.step(now)
        try:
            response = classic_members.join(step, attempt)
        except KafkaError as refused:
            self.undone(step)
            return [Reply(attempt.correlation, refused_join("", refused.code))]
        return self.concluded(step, attempt.correlation, response, refused_join_of)

    def sync(self, correlation: object, request: SyncGroupRequest, now: Instant) -> list[Effect]:
        step = self.step(now)
        try:
            response = classic_members.sync(step, request)
        except KafkaError as refused:
            return [Reply(correlation, SyncGroupResponse(error_code=int(refused.code)))]
        return self.concluded(step, correlation, response, refused_sync_of)

    def heartbeat(
        self, correlation: object, request: HeartbeatRequest, now: Instant
    ) -> list[Effect]:
        step = self.step(now)
        try:
            code = classic_members.heartbeat(step, request)
        except KafkaError as refused:
            return [Reply(correlation, refused.code)]
        return self.concluded(step, correlation, code, refused_code)

    def leave(self, correlation: object, leaving: Sequence[Leaving], now: Instant) -> list[Effect]:
        step = self.step(now)
        codes = classic_members.leave(step, leaving)
        return self.concluded(step, correlation, (NO_ERROR, codes), refused_leave_of)

    # ---- what is shown

    @property
    def as_stored(self) -> CoordinatedGroup | None:
        self.home.catch_up()
        return self if self.group.is_stored else super().as_stored if self.before else None

    @property
    def state(self) -> str:
        return self.group.stored_state.value

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def member_count(self) -> int:
        return len(self.group.members)

    def described(self) -> None:
        """DescribeGroups shows groups of the classic protocol only; see `shown`."""

    def shown(self) -> Description:
        """Return what ConsumerGroupDescribe shows."""
        from kbroker.coordinator.consumer_group.description import Description  # with its message

        given = self.given
        return Description(self.group, given.topics, given.assignors.default.name)

    def shown_bytes(self) -> int:
        """Return about how many bytes `shown` has of the members."""
        from kbroker.coordinator.consumer_group.description import described_bytes

        return described_bytes(self.group)

    def described_bytes(self) -> int:
        return 0

    def moved(self, *, is_here: bool) -> Event | None:
        group = self.group
        if not group.members:
            return None
        return CoordinatorMoved(
            group=self.group_id,
            generation_id=group.epoch,
            members=len(group.members),
            is_here=is_here,
            counted="epoch",
        )

    # ---- its life

    @property
    def is_empty(self) -> bool:
        return self.group.state is ConsumerGroupState.EMPTY

    @property
    def is_expected(self) -> bool:
        return False

    @property
    def version(self) -> int:
        return self.group.joins

    @property
    def is_recorded(self) -> bool:
        return self.group.is_recorded or self.group.last_unstored_write is not None

    def ending(self) -> Ending:
        group = self.group
        changes = removal_of_group(group.members, group.resolved)

        def replay(part: slice) -> None:
            for change in changes[part]:
                group.apply(change)

        return Ending(written(self.group_id, changes), replay)

    # ---- offsets

    def commit_error(self, committer: Committer, offsets: Offsets, _now_ms: float) -> ErrorCode:
        return commits.commit_error(self.group, self.given.topics, committer, offsets)

    def transactional_commit_error(self, committer: Committer, offsets: Offsets) -> ErrorCode:
        return commits.transactional_commit_error(self.group, self.given.topics, committer, offsets)

    def fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        return commits.fetch_error(self.group, member_id, epoch)

    @property
    def may_lose_offsets(self) -> bool:
        return True

    def follows(self, topic: str) -> bool:
        return self.group.follows(topic)

    def expired(
        self, now_ms: int, retention_ms: int, among: Iterable[TopicPartition] | None = None
    ) -> list[TopicPartition]:
        return self.offsets.expired(now_ms, retention_ms, _commit_time, self.group.topics(), among)


def _topics_of(changes: Iterable[Change]) -> Iterator[str]:
    """The topics that changed members and patterns name."""
    for kind, _, value in changes:
        if kind is RecordKind.MEMBER_METADATA and value is not None:
            yield from value.subscribed_topic_names
        elif kind is RecordKind.REGULAR_EXPRESSION and value is not None:
            yield from value.topics


def _has_target(changes: Iterable[Change]) -> bool:
    return any(
        kind is RecordKind.TARGET_ASSIGNMENT_METADATA and value is not None
        for kind, _, value in changes
    )


def _commit_time(value: CommittedOffset) -> int:
    return value.commit_timestamp_ms
