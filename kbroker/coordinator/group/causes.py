"""The causes of rebalances and removals, made of what the machine knows of a member.

Pure. A cause is made where something is decided, for rare inputs only: none of a heartbeat or a
commit.
"""

from __future__ import annotations

from dataclasses import dataclass

from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.member import Member, Protocols
from kbroker.events.event import cut
from kbroker.events.group_events import (
    CoordinatorMoved,
    GroupStable,
    MemberExpired,
    MemberReplaced,
    Rebalance,
    RebalanceCause,
    RemovalCause,
    Who,
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cause:
    """The cause for which a group is to rebalance."""

    why: RebalanceCause
    who: Who | None = None
    detail: str = ""
    reason: str | None = None  # as the client gave it


def by_member(
    why: RebalanceCause, member: Member, detail: str = "", reason: str | None = None
) -> Cause:
    """Return a cause that a member has given; `reason` is what its client says."""
    return Cause(why, who(member), detail, None if reason is None else cut(reason))


def rejoined(member: Member, protocols: Protocols, reason: str | None = None) -> Cause:
    """Return the cause that lies in a member's second JoinGroup, before it is taken over."""
    if member.protocols == protocols:  # of others, nothing comes of that
        return by_member(RebalanceCause.LEADER_REJOINED, member, reason=reason)
    names = [name for name, _ in protocols]
    if names == [name for name, _ in member.protocols]:
        return by_member(RebalanceCause.METADATA_CHANGED, member, reason=reason)
    detail = cut(", ".join(map(repr, names)))
    return by_member(RebalanceCause.PROTOCOLS_CHANGED, member, detail, reason)


def who(member: Member) -> Who:
    """Return a member as events name it."""
    return Who.of(member.member_id, member.group_instance_id, member.client_id, member.client_host)


def rebalance(group: Group, cause: Cause) -> Rebalance:
    """Return the event of a join phase that begins."""
    return Rebalance(
        group=group.group_id,
        generation_id=group.generation_id,
        members=len(group.members),
        why=cause.why,
        who=cause.who,
        detail=cause.detail,
        reason=cause.reason,
    )


def expired(group: Group, why: RemovalCause, of: Who, detail: str = "") -> MemberExpired:
    """Return the event of a member that is removed because it was late."""
    return MemberExpired(
        group=group.group_id, generation_id=group.generation_id, why=why, who=of, detail=detail
    )


def replaced(group: Group, member: Member, former_id: str) -> MemberReplaced:
    """Return the event of a static member that has another id now, without a rebalance."""
    return MemberReplaced(
        group=group.group_id,
        generation_id=group.generation_id,
        who=who(member),
        former_id=cut(former_id),
    )


def stable(group: Group) -> GroupStable:
    """Return the event of a rebalance that has ended."""
    assert group.leader_id is not None
    return GroupStable(
        group=group.group_id,
        generation_id=group.generation_id,
        members=len(group.members),
        protocol=cut(group.protocol_name or ""),
        leader=who(group.members[group.leader_id]),
    )


def moved(group: Group, *, is_here: bool) -> CoordinatorMoved:
    """Return the event of a group that this broker has loaded, or given up."""
    return CoordinatorMoved(
        group=group.group_id,
        generation_id=group.generation_id,
        members=len(group.members),
        is_here=is_here,
    )
