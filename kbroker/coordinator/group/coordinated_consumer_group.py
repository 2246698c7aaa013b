"""CoordinatedConsumerGroup: a group of the consumer protocol (KIP-848), as one of the kinds that a
coordinator keeps.

Law: what the machine decides is written as one batch, enters the group when the log takes it, and
is answered when it is stored; an answer that writes nothing waits for what it rests on. If a write
is refused, no target that is being computed on top of it counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from kbroker.coordinator.consumer_group import sessions
from kbroker.coordinator.consumer_group.assignors.assignor import Assignment, AssignorError
from kbroker.coordinator.consumer_group.changes import Change, removal_of_group, written
from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.happenings import arrival, events_of
from kbroker.coordinator.consumer_group.member import Member
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
    let_patterns_wait,
    on_resolved,
)
from kbroker.coordinator.consumer_group.target_assignment import (
    TOO_LARGE,
    on_computed,
    target_failed,
)
from kbroker.coordinator.group.coordinated_group import (
    FIRST_VERSION_WITH_EPOCHS,
    Beside,
    Committer,
    CoordinatedGroup,
    Ending,
    Offsets,
)
from kbroker.coordinator.group.offsets import CommittedOffset, GroupOffsets
from kbroker.coordinator.group_kinds import CONSUMER, ConsumerGroupState
from kbroker.coordinator.runtime.append_errors import append_errors
from kbroker.coordinator.runtime.effects import (
    Append,
    Compute,
    Effect,
    Happened,
    Instant,
    Reply,
)
from kbroker.coordinator.runtime.shard import UNCONFIRMED, Shard
from kbroker.errors import NO_ERROR, ErrorCode
from kbroker.events.event import Event
from kbroker.events.group_events import CoordinatorMoved
from kbroker.model import TopicPartition
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from kbroker.coordinator.consumer_group.description import Description

PROTOCOL_TYPE = "consumer"
_APPEND_ERRORS = {
    **append_errors(too_large=ErrorCode.UNKNOWN_SERVER_ERROR),
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Decided:
    """Token of the changes of one step, and what is answered once they are stored."""

    changes: tuple[Change, ...]
    correlation: object | None = None
    response: Any = None
    events: Sequence[Event] = ()  # that happen then


class Keeper(Protocol):
    """The maker of these groups, as far as they know it."""

    given: Surroundings

    def follow(self, topics: Iterable[str], group_id: str) -> None:
        """A group is to hear of changes of topics."""
        ...

    @property
    def resolving(self) -> AbstractAsyncContextManager[None]:
        """Held while patterns of a group are resolved."""
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
        settings = self.given.settings_of(self.group_id)
        return ConsumerStep(self.group, self.attendance, self.given, settings, now)

    def concluded(
        self, step: ConsumerStep, correlation: object | None = None, response: Any = None
    ) -> list[Effect]:
        """Return what comes of a step: its effects, its changes as one write, and the answer."""
        effects = step.effects
        if step.changes:
            records = written(self.group_id, step.changes)
            if self.before is not None and not self.group.is_recorded:
                records = [*self.before.ending().records, *records]
            changes, events = tuple(step.changes), events_of(step)
            decided = Decided(changes, correlation, response, events)
            is_answered = correlation is not None
            effects.append(Append(tuple(records), decided, is_answered))
        elif correlation is not None:
            effects.append(Reply(correlation, response))
        return effects

    def undone(self, step: ConsumerStep) -> None:
        """A step was refused: nobody begins the work that it has asked for."""
        for effect in step.effects:
            if isinstance(effect, Compute) and effect.token is self.attendance.job:
                self.attendance.job = None
            elif isinstance(effect, Compute) and effect.token is self.attendance.pattern_job:
                self.attendance.pattern_job = None

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
        return not self.group.follows(topic) and self.group.last_unstored_write is None

    def append_ended(self, token: Hashable, error: ErrorCode, now: Instant) -> list[Effect]:
        assert isinstance(token, Decided)
        step = self.step(now)
        if error is NO_ERROR or error in UNCONFIRMED:
            self.before = None
            if self.attendance.failed is not None and _has_target(token.changes):
                self.attendance.failed = None
            step.effects += map(Happened, token.events)
            reached = arrival(self.group, self.attendance)
            if reached is not None:
                step.effects.append(Happened(reached))
        else:
            self._write_refused(step, token, error)
        if token.correlation is not None:
            response = token.response if error is NO_ERROR else refusal_of(error)
            step.effects.append(Reply(token.correlation, response))
        return step.effects

    def _write_refused(self, step: ConsumerStep, token: Decided, error: ErrorCode) -> None:
        self.attendance.job = None
        if any(kind is RecordKind.REGULAR_EXPRESSION and value for kind, _, value in token.changes):
            let_patterns_wait(step)
        if _has_target(token.changes):
            is_too_large = _APPEND_ERRORS.get(error) is ErrorCode.UNKNOWN_SERVER_ERROR
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
            async with self._keeper.resolving:
                return await super().worked(effect, beside)
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

    # ---- what is shown

    @property
    def as_stored(self) -> CoordinatedGroup | None:
        self.home.catch_up()
        return self if self.group.is_stored else self.before

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
        """An epoch before the member's own is good for partitions that it had by then (KIP-1251),
        as an answer with the new one may be on its way.
        """
        _, member_id, _, epoch, api_version = committer
        if epoch < 0 and not self.group.members:
            return NO_ERROR
        member = self.group.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not member.is_classic and api_version < FIRST_VERSION_WITH_EPOCHS:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.epoch:
            return NO_ERROR
        stale = ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
        if epoch > member.epoch:
            return stale
        had_all = all(self._had(member, place, epoch) for place, _ in offsets)
        return NO_ERROR if had_all else stale

    def _had(self, member: Member, place: TopicPartition, epoch: int) -> bool:
        """Whether a member has, or gives up, a partition that it got in `epoch` or before."""
        topic_id = self.given.topics.topic_id(place.topic)
        if topic_id is None:
            return False
        for partitions in (member.assigned, member.revoking):
            since = partitions.get(topic_id, {}).get(place.partition)
            if since is not None:
                return since <= epoch
        return False

    def transactional_commit_error(self, committer: Committer, offsets: Offsets) -> ErrorCode:
        """A producer that names no member of the group is trusted, as old ones name none. None of
        them knows STALE_MEMBER_EPOCH.
        """
        _, member_id, instance_id, epoch, _ = committer
        if epoch == -1 and not member_id and instance_id is None:
            return NO_ERROR
        error = self.commit_error(committer, offsets, 0.0)
        is_stale = error is ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.ILLEGAL_GENERATION if is_stale else error

    def fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        """NONE for whoever names no member, and for a member in its epoch."""
        if member_id is None and epoch < 0:
            return NO_ERROR
        member = self.group.members.stored(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == member.epoch:
            return NO_ERROR
        return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH

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


def refusal_of(error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    """The answer to a heartbeat whose records were not stored."""
    return ConsumerGroupHeartbeatResponse(error_code=int(_APPEND_ERRORS.get(error, error)))


def _commit_time(value: CommittedOffset) -> int:
    return value.commit_timestamp_ms
