"""A consumer group of the classic protocol: its members, generation, leader and state.

Pure. Law: everything that changes the membership of a group lives here, so that the invariants
named at the fields are kept in one place. What a request means is decided in `join_sync`
(JoinGroup, SyncGroup, rebalance) and `sessions` (Heartbeat, LeaveGroup, timers, commits); both
return effects. Classic protocol with static members (KIP-345) and known member ids (KIP-394).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import copy

from kbroker.coordinator.consumer_protocol import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from kbroker.coordinator.group.group_state import VALID_PREVIOUS, GroupState
from kbroker.coordinator.group.member import Member, Protocols
from kbroker.coordinator.group.offsets import GroupOffsets


class Group:
    """One group; owned by the event loop of its coordinator."""

    __slots__ = (
        "becoming",
        "current_state_timestamp_ms",
        "generation_id",
        "group_id",
        "has_record",
        "initial_join_remaining_ms",
        "joined",
        "leader_id",
        "members",
        "new_member_added",
        "offsets",
        "pending_members",
        "pending_sync_members",
        "protocol_counts",
        "protocol_name",
        "protocol_type",
        "state",
        "static_members",
        "subscribed_topics",
    )

    def __init__(
        self,
        group_id: str,
        state: GroupState = GroupState.EMPTY,
        offsets: GroupOffsets | None = None,
    ) -> None:
        self.group_id = group_id
        self.state = state
        self.current_state_timestamp_ms: int | None = None  # wall clock of the last transition
        self.generation_id = 0  # one more with every finished rebalance
        self.has_record = False  # of generation 0; later ones always have one
        self.protocol_type: str | None = None  # of the first member; None = offsets only
        self.protocol_name: str | None = None  # chosen by vote, for the current generation
        self.protocol_counts: Counter[str] = Counter()  # how many members support each
        self.leader_id: str | None = None  # in members, or None when there are none
        self.members: dict[str, Member] = {}  # in order of joining
        self.joined: set[Member] = set()  # of members, those whose JoinGroup waits for its answer
        self.static_members: dict[str, str] = {}  # group instance id -> id of a member
        self.pending_members: set[str] = set()  # ids handed out, not joined yet (KIP-394)
        self.pending_sync_members: set[str] = set()  # joined this generation, SyncGroup not seen
        self.becoming: Group | None = None  # when the records of static members are stored, if any
        self.subscribed_topics: frozenset[str] | None = None  # None = not known
        self.new_member_added = False  # someone joined during the initial delay
        self.initial_join_remaining_ms = -1.0  # of the initial rebalance delay; -1 = not in one
        self.offsets = GroupOffsets() if offsets is None else offsets

    # ---- queries

    @property
    def is_simple(self) -> bool:
        """True when the group was only ever used to keep offsets."""
        return self.protocol_type is None

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def awaiting_join_count(self) -> int:
        """How many members wait for their JoinGroup answer."""
        return len(self.joined)

    def has_all_members_joined(self) -> bool:
        """True when nobody has to be waited for any more."""
        return not self.pending_members and len(self.joined) == len(self.members)

    def can_rebalance(self) -> bool:
        """True when a rebalance may start from the current state."""
        return self.state in VALID_PREVIOUS[GroupState.PREPARING_REBALANCE]

    def rebalance_timeout_ms(self) -> int:
        """The longest time any member asked for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def candidate_protocols(self) -> frozenset[str]:
        """The protocols that every member supports."""
        everybody = len(self.members)
        return frozenset(n for n, count in self.protocol_counts.items() if count == everybody)

    def supports_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """True when a member with these protocols could join without shutting another one out."""
        names = set(names)
        if not self.members:  # Empty, or all have left during the initial delay
            return bool(protocol_type) and bool(names)
        return protocol_type == self.protocol_type and not names.isdisjoint(
            self.candidate_protocols()
        )

    def select_protocol(self) -> str:
        """Each member votes for the first protocol on its list that all support.

        Most votes win, a tie goes to the oldest member's.
        """
        candidates = self.candidate_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def copy(self, instance_id: str) -> Group:
        """Another group of the same members, to see what a change of one of them would lead to: the
        one of `instance_id` is a copy.
        """
        other = copy(self)
        other.becoming = None
        changing = self.static_members[instance_id]
        other.members = {**self.members, changing: copy(self.members[changing])}
        other.joined = set()
        other.static_members = dict(self.static_members)
        other.protocol_counts = Counter(self.protocol_counts)
        other.pending_members = set(self.pending_members)
        other.pending_sync_members = set(self.pending_sync_members)
        return other

    # ---- changes

    def transition_to(self, state: GroupState, wall_ms: int) -> None:
        """The one place where the state changes."""
        assert self.state in VALID_PREVIOUS[state], f"{self.group_id}: {self.state} -> {state}"
        self.state = state
        self.current_state_timestamp_ms = wall_ms
        self.becoming = None

    def add(self, member: Member) -> None:
        """Take a member in; the first one becomes leader and sets the protocol type."""
        assert member.member_id not in self.members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.join is not None:
            self.joined.add(member)
        self.protocol_counts.update(member.protocol_names())
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Let a member, or an id that was handed out, go; the oldest member left becomes leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self.joined.discard(member)
            self._uncount_protocols(member)
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync_members.discard(member_id)
        return member

    def hold_join(self, member: Member, correlation: object | None) -> None:
        """A member's JoinGroup waits from now on; None when it is answered."""
        member.join = correlation
        if correlation is None:
            self.joined.discard(member)
        else:
            self.joined.add(member)

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        """A member has another list of protocols."""
        self._uncount_protocols(member)
        member.protocols = protocols
        self.protocol_counts.update(member.protocol_names())

    def _uncount_protocols(self, member: Member) -> None:
        self.protocol_counts.subtract(member.protocol_names())
        self.protocol_counts = +self.protocol_counts  # only what somebody supports

    def replace_static_member(self, instance_id: str, new_member_id: str) -> Member:
        """Give the member of an instance id a new member id.

        Leadership and its place in line stay.
        """
        old_member_id = self.static_members[instance_id]
        member = self.members[old_member_id]
        member.member_id = new_member_id
        self.members = {each.member_id: each for each in self.members.values()}
        self.static_members[instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        if old_member_id in self.pending_sync_members:
            self.pending_sync_members.discard(old_member_id)
            self.pending_sync_members.add(new_member_id)
        return member

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is among those who joined; False when nobody did."""
        if self.leader_id is None or self.members[self.leader_id].join is not None:
            return True
        for member in self.members.values():
            if member.join is not None:
                self.leader_id = member.member_id
                return True
        return False

    def init_next_generation(self, wall_ms: int) -> None:
        """Close the join phase: count the generation, choose the protocol, wait for the leader."""
        self.generation_id = 1 if self.generation_id >= 0x7FFFFFFF else self.generation_id + 1
        self.pending_sync_members.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.compute_subscribed_topics()
            self.transition_to(GroupState.COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol_name = None
            self.compute_subscribed_topics()
            self.transition_to(GroupState.EMPTY, wall_ms)

    def compute_subscribed_topics(self) -> None:
        """Read from the members' metadata which topics a consumer group follows.

        None if that cannot be known.
        """
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            self.subscribed_topics = None
        elif not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_name is not None:
            name = self.protocol_name
            self.subscribed_topics = subscribed_topics(
                member.metadata(name) for member in self.members.values()
            )
