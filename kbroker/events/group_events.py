"""Events of groups: why one rebalances, loses a member, becomes stable, comes to another broker.

Pure. The causes are values of the group's machine; the sentences stand in tables beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kbroker.events.event import Fields, cut, known, quoted


class RemovalCause(Enum):
    """The cause for which the coordinator removes a member that did not leave, as it is said of the
    member.
    """

    SESSION_EXPIRED = "sent no heartbeat for {detail} ms (session.timeout.ms)"
    JOIN_TIMEOUT = "did not join again within {detail} ms (rebalance timeout)"
    SYNC_TIMEOUT = "did not fetch its assignment within {detail} ms (rebalance timeout)"
    NEVER_JOINED = "asked for a member id, and did not join under it"


class RebalanceCause(Enum):
    """The cause of a rebalance, with its sentence: {who} is the member, {detail} depends."""

    NEW_MEMBER = "{who} joined"
    MEMBER_LEFT = "{who} left"
    REMOVED_BY_ADMIN = "{who} was removed by an administrator"
    SESSION_EXPIRED = "{who} " + RemovalCause.SESSION_EXPIRED.value
    SYNC_TIMEOUT = "{who} joined, and " + RemovalCause.SYNC_TIMEOUT.value
    METADATA_CHANGED = "{who} joined again with other metadata, for instance other topics"
    PROTOCOLS_CHANGED = "{who} joined again with other protocols: {detail}"
    LEADER_REJOINED = "the leader, {who}, asked for it by joining again"
    STATIC_MEMBER_REPLACED = "{who} came back as another process, {detail}"
    NOT_STORED = "the assignments could not be stored: {detail}"
    PROTOCOL_CHANGED = "the last member of the consumer protocol has left it"
    GROUP_TOO_LARGE = "it was loaded with more members than group.max.size={detail}"


class Who(NamedTuple):
    """A member of a group as its connection knows it; unknown texts are empty."""

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""  # "/" and the address

    @classmethod
    def of(cls, member_id: str, instance_id: str | None, client_id: str, host: str) -> Who:
        """Return a member with texts that may be kept."""
        instance_id = None if instance_id is None else cut(instance_id)
        return cls(cut(member_id), instance_id, cut(client_id), cut(host))

    def shown(self) -> str:
        """Name the member for a person."""
        kind = "member" if self.instance_id is None else f"static member {quoted(self.instance_id)}"
        word = "" if self.instance_id is None else " as"
        name = f"{word} {quoted(self.member_id)}" if self.member_id else ""
        client = f"client {quoted(self.client_id)}" if self.client_host else ""
        place = f" ({client} at {_address(self.client_host)})" if client else ""
        return f"{kind}{name}{place}"

    def fields(self) -> Fields:
        """Name the member for a program."""
        return known(
            member_id=self.member_id or None,
            group_instance_id=self.instance_id,
            client_id=self.client_id or None,
            client_host=_address(self.client_host) or None,
        )


def _address(client_host: str) -> str:
    return client_host.removeprefix("/")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Rebalance:
    """A group's join phase has begun, with `members` that it has now."""

    name = "rebalance"
    topic_partition = None

    group: str
    generation_id: int
    members: int
    why: RebalanceCause
    who: Who | None = None
    detail: str = ""
    reason: str | None = None  # as the client gave it, cut

    @property
    def cause(self) -> str:
        return self.why.name.lower()

    def sentence(self) -> str:
        """Say what began the rebalance, and the reason that the client gave."""
        who = self.who.shown() if self.who is not None else ""
        cause = self.why.value.format(who=who, detail=self.detail)
        reason = f"; its reason: {quoted(self.reason)}" if self.reason else ""
        what = "rebalances" if self.members else "has no members any more"
        return (
            f"Group {quoted(self.group)} {what} (generation {self.generation_id}): {cause}{reason}"
        )

    def fields(self) -> Fields:
        """Name the group, the member and its reason."""
        about = known(
            group=cut(self.group),
            generation=self.generation_id,
            members=self.members,
            detail=self.detail or None,
            reason=self.reason or None,
        )
        return about if self.who is None else {**about, **self.who.fields()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MemberExpired:
    """The coordinator has removed a member that was late."""

    name = "member_expired"
    topic_partition = None

    group: str
    generation_id: int
    why: RemovalCause
    who: Who
    detail: str = ""

    @property
    def cause(self) -> str:
        return self.why.name.lower()

    def sentence(self) -> str:
        """Say what the member was late with."""
        cause = self.why.value.format(detail=self.detail)
        return f"Group {quoted(self.group)} removed {self.who.shown()}: it {cause}"

    def fields(self) -> Fields:
        """Name the group and the member."""
        return {
            **known(
                group=cut(self.group), generation=self.generation_id, detail=self.detail or None
            ),
            **self.who.fields(),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MemberReplaced:
    """A static member has come back as another process, and its group needs no rebalance."""

    name = "member_replaced"
    cause = "static_member"
    topic_partition = None

    group: str
    generation_id: int
    who: Who
    former_id: str  # cut

    def sentence(self) -> str:
        """Say who is a member now, and whom that fences."""
        return (
            f"Group {quoted(self.group)} goes on without a rebalance (generation "
            f"{self.generation_id}): {self.who.shown()} came back as another process, and "
            f"{quoted(self.former_id)} is fenced"
        )

    def fields(self) -> Fields:
        """Name the group, the member, and the id that it had."""
        about = known(group=cut(self.group), generation=self.generation_id, former=self.former_id)
        return {**about, **self.who.fields()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GroupStable:
    """A rebalance has ended: every member has, or can fetch, its assignment."""

    name = "group_stable"
    cause = "assigned"
    topic_partition = None

    group: str
    generation_id: int
    members: int
    protocol: str
    leader: Who

    def sentence(self) -> str:
        """Say how many members the group has, and who assigned."""
        count = f"{self.members:,} member{'s' if self.members != 1 else ''}"
        return (
            f"Group {quoted(self.group)} is stable (generation {self.generation_id}): {count}, "
            f"assigned by {quoted(self.protocol)} of {self.leader.shown()}"
        )

    def fields(self) -> Fields:
        """Name the group and its leader."""
        return {
            **known(
                group=cut(self.group),
                generation=self.generation_id,
                members=self.members,
                protocol=self.protocol,
            ),
            **self.leader.fields(),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ProtocolChanged:
    """A group goes on as one of another kind (KIP-848)."""

    name = "protocol_changed"
    topic_partition = None

    group: str
    protocol: str  # from now on: classic or consumer
    members: int

    @property
    def cause(self) -> str:
        return f"to_{self.protocol}"

    def sentence(self) -> str:
        """Say who assigns from now on."""
        who = "its coordinator" if self.protocol == "consumer" else "one of its members"
        return (
            f"Group {quoted(self.group)} changes to the {self.protocol} protocol, with "
            f"{self.members:,} member{'s' if self.members != 1 else ''}: {who} assigns from now on"
        )

    def fields(self) -> Fields:
        """Name the group, and count its members."""
        return known(group=cut(self.group), protocol=self.protocol, members=self.members)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CoordinatorMoved:
    """A group with members has come to this broker, or has left it."""

    name = "coordinator_moved"
    topic_partition = None

    group: str
    generation_id: int
    members: int
    is_here: bool
    counted: str = "generation"  # or epoch

    @property
    def cause(self) -> str:
        return "loaded" if self.is_here else "resigned"

    def sentence(self) -> str:
        """Say whether the group has come or gone."""
        where = (
            f"is coordinated by this broker from now on, with {self.members:,} "
            f"member{'s' if self.members != 1 else ''}"
            if self.is_here
            else "is no longer coordinated by this broker: its members go to another one"
        )
        return f"Group {quoted(self.group)} {where} ({self.counted} {self.generation_id})"

    def fields(self) -> Fields:
        """Name the group, and count its members."""
        return known(group=cut(self.group), generation=self.generation_id, members=self.members)
