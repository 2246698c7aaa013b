"""Events of groups whose coordinator assigns (KIP-848): why one begins an epoch, whom it loses,
when it has a target, and when all members have reached it.

Pure. The causes are values of the group's machine; the sentences stand in tables beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kbroker.events.event import Fields, cut, known, quoted
from kbroker.events.group_events import RemovalCause, Who


class FencingCause(Enum):
    """The cause for which the coordinator removes a member that did not leave, as it is said of the
    member.
    """

    SESSION_EXPIRED = "sent no heartbeat for {detail} ms (its session timeout)"
    REBALANCE_TIMEOUT = "did not give up its partitions within {detail} ms (its rebalance timeout)"
    JOIN_TIMEOUT = "was asked to join again, and did not within {detail} ms (rebalance timeout)"
    SYNC_TIMEOUT = RemovalCause.SYNC_TIMEOUT.value


class EpochCause(Enum):
    """The cause of a new epoch, with its sentence: {who} is the member, {detail} depends."""

    NEW_MEMBER = "{who} joined"
    MEMBER_LEFT = "{who} left"
    SESSION_EXPIRED = "{who} " + FencingCause.SESSION_EXPIRED.value
    REBALANCE_TIMEOUT = "{who} " + FencingCause.REBALANCE_TIMEOUT.value
    JOIN_TIMEOUT = "{who} " + FencingCause.JOIN_TIMEOUT.value
    SYNC_TIMEOUT = "{who} joined, and " + FencingCause.SYNC_TIMEOUT.value
    SUBSCRIPTION_CHANGED = "{who} subscribes to other topics"
    TOPICS_CHANGED = "topics that it reads have changed, or come and gone"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class EpochBegun:
    """A group has a new epoch, with `members` then; the target of the one before holds until there
    is another.
    """

    name = "group_epoch"
    topic_partition = None

    group: str
    epoch: int
    members: int
    why: EpochCause
    who: Who | None = None
    detail: str = ""

    @property
    def cause(self) -> str:
        return self.why.name.lower()

    def sentence(self) -> str:
        """Say what began the epoch."""
        who = self.who.shown() if self.who is not None else ""
        cause = self.why.value.format(who=who, detail=self.detail)
        what = f"begins epoch {self.epoch}" if self.members else "has no members any more"
        more = f" with {_members(self.members)}" if self.members else f" (epoch {self.epoch})"
        return f"Group {quoted(self.group)} {what}{more}: {cause}"

    def fields(self) -> Fields:
        """Name the group and the member."""
        about = known(
            group=cut(self.group),
            epoch=self.epoch,
            members=self.members,
            detail=self.detail or None,
        )
        return about if self.who is None else {**about, **self.who.fields()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MemberFenced:
    """The coordinator has removed a member that was late."""

    name = "member_fenced"
    topic_partition = None

    group: str
    epoch: int  # of the group, from then on
    why: FencingCause
    who: Who
    detail: str

    @property
    def cause(self) -> str:
        return self.why.name.lower()

    def sentence(self) -> str:
        """Say what the member was late with."""
        cause = self.why.value.format(detail=self.detail)
        return f"Group {quoted(self.group)} removed {self.who.shown()}: it {cause}"

    def fields(self) -> Fields:
        """Name the group and the member."""
        about = known(group=cut(self.group), epoch=self.epoch, detail=self.detail)
        return {**about, **self.who.fields()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class StaticMemberMoved:
    """A static member has left for a while, or came back as another process, which takes over what
    it had; `former_id` is None when it left.
    """

    name = "static_member"
    topic_partition = None

    group: str
    epoch: int
    who: Who
    former_id: str | None = None  # cut

    @property
    def cause(self) -> str:
        return "left" if self.former_id is None else "came_back"

    def sentence(self) -> str:
        """Say what it did, and what becomes of its partitions."""
        if self.former_id is None:
            what = "left for a while and keeps its partitions"
        else:
            what = f"came back and takes over from {quoted(self.former_id)}"
        return f"Group {quoted(self.group)} (epoch {self.epoch}): {self.who.shown()} {what}"

    def fields(self) -> Fields:
        """Name the group, the member, and the id that it had."""
        about = known(group=cut(self.group), epoch=self.epoch, former=self.former_id)
        return {**about, **self.who.fields()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TargetAssigned:
    """A decision who is to have which partition in an epoch."""

    name = "group_target"
    cause = "assigned"
    topic_partition = None

    group: str
    epoch: int
    members: int
    assignor: str

    def sentence(self) -> str:
        """Say who has decided, and for how many."""
        return (
            f"Group {quoted(self.group)} has a target for epoch {self.epoch}: "
            f"{_members(self.members)}, assigned by {quoted(self.assignor)}"
        )

    def fields(self) -> Fields:
        """Name the group and the assignor."""
        return known(
            group=cut(self.group),
            epoch=self.epoch,
            members=self.members,
            assignor=cut(self.assignor),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TargetReached:
    """Every member has what it is to have."""

    name = "group_stable"
    cause = "reconciled"
    topic_partition = None

    group: str
    epoch: int
    members: int

    def sentence(self) -> str:
        """Say how many members have reached their target."""
        return (
            f"Group {quoted(self.group)} is stable (epoch {self.epoch}): "
            f"{_members(self.members)} at the target"
        )

    def fields(self) -> Fields:
        """Name the group, and count its members."""
        return known(group=cut(self.group), epoch=self.epoch, members=self.members)


def _members(count: int) -> str:
    return f"{count:,} member{'' if count == 1 else 's'}"
