"""CoordinatedGroup: what a coordinator asks of a group, whatever protocol its members speak.

Law: each kind of groups answers for itself who may commit and read offsets, what is shown of
it, when its offsets expire, and which records end it; whoever keeps groups asks these questions and
never which kind one is. What only one protocol has (joins, heartbeats) goes to the kind by its
class. A kind returns effects, as its machine does, and its keeper runs them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kbroker.coordinator.group.join_sync import JoinAttempt
from kbroker.coordinator.group.offsets import CommittedOffset, GroupOffsets
from kbroker.coordinator.group.sessions import Leaving
from kbroker.coordinator.runtime.effects import Compute, Effect, Instant, KeyValue, Reply
from kbroker.coordinator.runtime.shard import Shard, nothing
from kbroker.errors import NO_ERROR, ErrorCode
from kbroker.events.event import Event
from kbroker.model import TopicPartition
from kbroker.protocol.messages.describe_groups import DescribeGroupsResponse
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest

Offsets = Sequence[tuple[TopicPartition, CommittedOffset]]
Beside = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs work beside the loop."""
FIRST_VERSION_WITH_EPOCHS = 9  # of OffsetCommit: of members of consumer groups


class Committer(NamedTuple):
    """The sender of a commit; generation -1 and no member id if outside group management.

    A member of a consumer group gives its epoch as generation.
    """

    group_id: str
    member_id: str = ""
    group_instance_id: str | None = None
    generation_id: int = -1
    api_version: int = 9


@dataclass(frozen=True, slots=True, eq=False)
class PlaceTaken:
    """Token of the records with which a group takes the place of one of another kind; `response` is
    for the request that has led to it, if there was one.
    """

    correlation: object | None = None
    response: Any = None
    refused: Callable[[ErrorCode], Any] = ErrorCode  # makes a response of why it was not stored


class Ending(NamedTuple):
    """Tombstones, and how some of them enter the group's state once the log has them."""

    records: list[KeyValue]
    replay: Callable[[slice], None]


class CoordinatedGroup(ABC):
    """A group, its offsets, and the shard that keeps them."""

    __slots__ = ("before", "group_id", "held", "home", "offsets")

    kind: ClassVar[str]  # as ListGroups names it
    outlives_its_offsets: ClassVar[bool] = False  # when they are deleted, not when they expire

    def __init__(self, group_id: str, home: Shard[Any], offsets: GroupOffsets) -> None:
        self.group_id = group_id
        self.home = home
        self.offsets = offsets
        # The group of another kind whose place it has taken, until the log has that.
        self.before: CoordinatedGroup | None = None
        self.held: Sequence[Reply] = ()  # answers that wait for that

    # ---- members of the classic protocol

    @abstractmethod
    def room_for_classic_members(self, now: Instant) -> list[Effect]:
        """Return what is to be done before the first member of the classic protocol joins."""

    @abstractmethod
    def join(self, attempt: JoinAttempt, now: Instant) -> list[Effect]:
        """JoinGroup, which is answered now, or later."""

    @abstractmethod
    def sync(self, correlation: object, request: SyncGroupRequest, now: Instant) -> list[Effect]:
        """SyncGroup, which is answered now, or later."""

    @abstractmethod
    def heartbeat(
        self, correlation: object, request: HeartbeatRequest, now: Instant
    ) -> list[Effect]:
        """Heartbeat, answered with a code."""

    @abstractmethod
    def leave(self, correlation: object, leaving: Sequence[Leaving], now: Instant) -> list[Effect]:
        """LeaveGroup, answered with a code for the request and one for each member."""

    # ---- what is shown

    @property
    def as_stored(self) -> CoordinatedGroup | None:
        """The group of this id that people see: the one before it until it is stored itself; None
        if there was none.
        """
        return self if self.before is None else self.before.as_stored

    @property
    @abstractmethod
    def state(self) -> str:
        """The name of its state."""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """The protocol type, empty for a group that only keeps offsets."""

    @property
    @abstractmethod
    def member_count(self) -> int: ...

    @abstractmethod
    def described(self) -> DescribeGroupsResponse.DescribedGroup | None:
        """Return what DescribeGroups shows, None for a group of another protocol."""

    @abstractmethod
    def described_bytes(self) -> int:
        """Return about how many bytes `described` has of the members."""

    @abstractmethod
    def moved(self, *, is_here: bool) -> Event | None:
        """Return the event of a group that was loaded or given up, None without members."""

    # ---- its life

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether it has no members and waits for none: it may be deleted."""

    @property
    @abstractmethod
    def is_expected(self) -> bool:
        """Whether somebody may be about to join: it must not end because of its age."""

    @property
    @abstractmethod
    def version(self) -> int:
        """A number that is another one once members have come, even if they are gone again."""

    @property
    @abstractmethod
    def is_recorded(self) -> bool:
        """Whether the log has records of the group beside its offsets, or will get some."""

    @abstractmethod
    def ending(self) -> Ending:
        """Return what ends the group beside its offsets."""

    @abstractmethod
    def started(self, now: Instant) -> list[Effect]:
        """The group was loaded: its members get a session to show up."""

    @abstractmethod
    def closed(self, code: ErrorCode, now: Instant) -> list[Effect]:
        """The group is not here any more: answer `code` to all who wait, end all timers."""

    @abstractmethod
    def displaced(self, now: Instant) -> list[Effect]:
        """Another kind has taken its place: end all timers, and answer all who wait that they have
        to come again.
        """

    @abstractmethod
    def restored(self, now: Instant) -> list[Effect]:
        """The group has its place back, as the log has refused the other: members get a session
        to show up.
        """

    @abstractmethod
    def timer_fired(self, key: Hashable, now: Instant) -> list[Effect]:
        """A timer fired that the group had set."""

    def replay(self, _token: Hashable) -> Callable[[int], None]:
        """Return how records that the group asked for enter its state as the log takes them; those
        of a classic group enter it when they are stored.
        """
        return nothing

    async def worked(self, effect: Compute, beside: Beside) -> Any:
        """Return what comes of work that the group asks for."""
        found = await beside(effect.work)
        return found if effect.then is None else await effect.then(found)

    def computed(self, _token: Hashable, _found: Any, _now: Instant) -> list[Effect]:
        """Work that the group asked for is done; None if it failed."""
        raise AssertionError(f"{self.group_id} asked for nothing")

    @abstractmethod
    def append_ended(self, token: Hashable, error: ErrorCode, now: Instant) -> list[Effect]:
        """Records are in the log, or refused, that the group asked for."""

    # ---- offsets

    def fetch_error(self, _member_id: str | None, _epoch: int) -> ErrorCode:
        """NONE when this member may read offsets now (KIP-848); others may at any time."""
        return NO_ERROR

    @abstractmethod
    def commit_error(self, committer: Committer, offsets: Offsets, now_ms: float) -> ErrorCode:
        """NONE when the committer may commit these now; prolongs the session of a member whose
        commits count as a sign of life.
        """

    @abstractmethod
    def transactional_commit_error(self, committer: Committer, offsets: Offsets) -> ErrorCode:
        """NONE when a producer may commit offsets in its transaction now (KIP-447)."""

    @property
    @abstractmethod
    def may_lose_offsets(self) -> bool:
        """Whether an administrator may delete offsets, of topics that it does not follow."""

    @abstractmethod
    def follows(self, topic: str) -> bool:
        """Whether members are subscribed to a topic, whose offsets are then kept."""

    @abstractmethod
    def expired(
        self, now_ms: int, retention_ms: int, among: Iterable[TopicPartition] | None = None
    ) -> list[TopicPartition]:
        """Partitions, of all or `among` these, whose offsets may go (KIP-211)."""
