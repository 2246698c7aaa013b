"""One input to a consumer group on its way through the machine, and what the machine knows beside
the group: settings, topics, assignors.

Pure. A step collects changes, which the shell writes as one batch and applies to the group when the
log takes them, and effects, which it runs at once. A refusal is a KafkaError, and then nothing of
the step is done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from kbroker.config.group_config import GroupConfig
from kbroker.coordinator.consumer_group.assignors.assignor import (
    Assignment,
    Assignor,
    AssignorError,
    GroupSpec,
    Topics,
)
from kbroker.coordinator.consumer_group.changes import Change
from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.member import Member
from kbroker.coordinator.consumer_group.record_values import PartitionEpochs, RecordKind
from kbroker.coordinator.runtime.effects import Effect, Instant
from kbroker.events.consumer_group_events import FencingCause


class GroupSettings(Protocol):
    """The settings that hold for one group."""

    @property
    def session_timeout_ms(self) -> int: ...

    @property
    def heartbeat_interval_ms(self) -> int: ...

    @property
    def assignment_interval_ms(self) -> int: ...


class KnownTopics(Protocol):
    """The topics of the cluster."""

    def topic_id(self, name: str) -> UUID | None:
        """None for a topic that does not exist, or has no id."""
        ...

    def topic_ids(self, names: frozenset[str]) -> frozenset[UUID]:
        """The ids of those of these topics that exist and have one."""
        ...

    def topic_name(self, topic_id: UUID) -> str | None: ...

    def metadata_hash(self, names: Iterable[str]) -> int:
        """The hash of those of these topics that exist."""
        ...

    def topics(self, topic_ids: frozenset[UUID]) -> Topics:
        """Return what an assignor may know of these."""
        ...

    @property
    def arrivals(self) -> int:
        """A number that is another one once topics have come."""
        ...

    def names(self) -> Sequence[str]:
        """All topics, those without an id too."""
        ...


class KnownAssignors(Protocol):
    """The assignors that members may ask for."""

    @property
    def default(self) -> Assignor: ...

    @property
    def names(self) -> str: ...

    def get(self, name: str) -> Assignor | None: ...


Match = Callable[[Collection[str], Sequence[str], int], Mapping[str, frozenset[str]]]
"""The names that each pattern matches. Called beside the loop; raises if it takes too long, and if
these have more bytes together than may be written.
"""


class MigrationPolicy(Enum):
    """The ways in which a group that is in use may change its protocol, as
    `group.consumer.migration.policy` names it. An empty one changes by use under each of them.
    """

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group may become a consumer group."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def may_downgrade(self) -> bool:
        """Whether a consumer group may become a classic one."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class Downgrade(NamedTuple):
    """A consumer group becomes a classic one, as nobody is left who speaks the new protocol."""

    leaving: frozenset[str] = frozenset()  # ids of members
    joining: Member | None = None  # the classic member that replaces a static one
    rebalances: bool = True


class TimerKind(Enum):
    """The purpose of a timer of a consumer group."""

    SESSION = "session"  # until a member counts as gone
    REBALANCE = "rebalance"  # until a member has given up what it has to
    JOIN = "join"  # until a classic member, which was asked to, has joined again
    SYNC = "sync"  # until a classic member that has joined has fetched its assignment


class TimerKey(NamedTuple):
    """A timer of one member, which has one of each kind."""

    kind: TimerKind
    member_id: str


@dataclass(slots=True, eq=False)
class Session:
    """The life sign of a member: known to this coordinator only."""

    deadline_ms: float = 0.0  # monotonic
    timer_ms: float | None = None  # when its timer fires, if it has one


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TargetJob:
    """A target to be computed beside the loop, as it takes long."""

    epoch: int
    assignor: Assignor
    spec: GroupSpec
    topics: Topics

    def assign(self) -> Mapping[str, Assignment]:
        """Return the target of each member. Raises AssignorError."""
        return self.assignor.assign(self.spec, self.topics)

    @property
    def is_own(self) -> bool:
        """Whether code of the operator's computes it, which never runs on the loop."""
        return self.assignor.setting is not None

    def is_as(self, other: TargetJob) -> bool:
        """Whether it is the same work as another one."""
        return (
            self.epoch == other.epoch
            and self.assignor is other.assignor
            and self.spec == other.spec
            and self.topics == other.topics
        )


class ComputedTarget(NamedTuple):
    """A target, or why there is none."""

    job: TargetJob
    found: Mapping[str, Assignment] | AssignorError


class TargetNeededError(Exception):
    """A step cannot go on without a target that is not computed on the loop. Nothing of it is
    done; it is to be made again with that target.
    """

    def __init__(self, job: TargetJob) -> None:
        self.job = job


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PatternJob:
    """Patterns whose topics are looked for beside the loop."""

    patterns: frozenset[str]
    begun_ms: int  # Unix time


class FailedTarget(NamedTuple):
    """A target that was computed beside the loop, and came to nothing."""

    reason: str | None  # why nobody can get one as the group is now; None if the log may take it
    times: int  # one after the other
    not_before_ms: float  # monotonic: another one is computed then


Counts = tuple[dict[str, int], dict[str, int]]
"""How many members subscribe to each topic by its name, and to each pattern."""


class CountsAfter(NamedTuple):
    """The counts of a group in which a member has changed."""

    before: Member | None
    after: Member | None
    counts: Counts


@dataclass(slots=True, eq=False, repr=False)
class Attendance:
    """Knowledge of a group that is not in the log: it begins again with each load."""

    sessions: dict[str, Session] = field(default_factory=dict)  # by member id
    revoking_epochs: dict[str, int] = field(default_factory=dict)  # of members with a timer
    awaited: set[TimerKey] = field(default_factory=set)  # joins and syncs of classic members
    missed: set[TimerKey] = field(default_factory=set)  # those whose time is up
    must_look_at_topics: bool = True  # since they were looked at, some may have changed
    looked_at_epoch: int = 0  # of the group, when its topics were looked at
    job: TargetJob | None = None  # whose result is waited for
    failed: FailedTarget | None = None  # the last one
    pattern_job: PatternJob | None = None  # likewise
    stable_epoch: int = -1  # in which all members were seen at their target
    on_its_way: str = ""  # a member that was not there yet
    # Members that come after that one in the group's order.
    not_looked_at: Iterator[str] = field(default_factory=lambda: iter(()))
    arrivals_seen: int = -1  # of topics, when patterns were resolved last
    patterns_not_before_ms: float = 0.0  # monotonic: patterns are not resolved until then


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Surroundings:
    """Things that every group of a broker is given beside its own state."""

    settings_of: Callable[[str], GroupSettings]  # by group id
    max_size: int  # members
    topics: KnownTopics
    assignors: KnownAssignors
    large_target: int  # partitions and members from which on a target is computed beside the loop
    large_write: int  # records, topics and partitions from which on records are made beside it
    pattern_refresh_ms: int  # after which patterns are resolved again
    match: Match  # patterns with names
    migration: MigrationPolicy
    classic: GroupConfig  # of the classic groups that consumer groups become


@dataclass(slots=True, eq=False, repr=False)
class ConsumerStep:
    """One input; collects what is to come of it."""

    group: ConsumerGroup
    attendance: Attendance
    given: Surroundings
    settings: GroupSettings
    now: Instant
    most_bytes: int = 1 << 20  # of a batch
    can_wait: bool = False  # for a target: it is made again then
    computed: ComputedTarget | None = None  # for this step
    changes: list[Change] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    assignor: str = ""  # of the target that it writes
    # Members that it removes, and what they were late with; others have left.
    late: dict[str, tuple[FencingCause, str]] = field(default_factory=dict)
    downgrade: Downgrade | None = None
    needs_target: bool = False  # another one, though nothing else has changed
    counts: CountsAfter | None = None  # asked for last
    told: PartitionEpochs | None = None  # the member that has sent a heartbeat

    def change(self, kind: RecordKind, value: Any, name: str = "") -> None:
        """Something of the group gets another value, None to end it."""
        self.changes.append(Change(kind, name, value))
