"""ConsumerGroup: the state of a group whose partitions the coordinator assigns (KIP-848).

Pure. Law: it changes by `apply` alone, and everything is in the shard's timeline, also what follows
from members: who follows a topic, in which epoch a partition is owned, how many ask for an
assignor. So a refused write leaves no trace, and the next load comes to the same. A partition
counts as owned by the newest epoch that names it: of a log that was half compacted, an older owner
may be read after the newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeGuard, TypeVar
from uuid import UUID

from kbroker.coordinator.consumer_group.changes import Change
from kbroker.coordinator.consumer_group.member import (
    NO_ASSIGNMENT,
    Member,
    each_partition,
)
from kbroker.coordinator.consumer_group.reconciliation import UNOWNED
from kbroker.coordinator.consumer_group.record_values import (
    CurrentMemberAssignment,
    GroupMetadata,
    MemberMetadata,
    Partitions,
    RecordKind,
    ResolvedRegularExpression,
    TargetAssignmentMetadata,
)
from kbroker.coordinator.group_kinds import ConsumerGroupState
from kbroker.coordinator.runtime.timeline import Timeline, TimelineDict

FIRST_EPOCH = 1  # of a group of which the log says nothing yet
_NEW_GROUP = GroupMetadata(FIRST_EPOCH)
_NEW_TARGET = TargetAssignmentMetadata(FIRST_EPOCH)
_NO_TARGET = TargetAssignmentMetadata(-1)
NO_PARTITIONS: Partitions = {}
_NO_NAMES: frozenset[str] = frozenset()

K = TypeVar("K")
Place = tuple[int, int]
"""A partition: the number of its topic's id, whose hash takes a tenth of the id's, and its own."""


class ConsumerGroup:
    """Owned by the event loop of its coordinator."""

    def __init__(
        self, group_id: str, timeline: Timeline | None = None, *, knows_owners: bool = True
    ) -> None:
        """`timeline` of the shard that keeps the group. Without `knows_owners` nobody asks who owns
        a partition before `find_owners`: a log tells of each partition many times.
        """
        timeline = Timeline() if timeline is None else timeline
        self.group_id = group_id
        self.members: TimelineDict[str, Member] = TimelineDict(timeline)
        self.static_members: TimelineDict[str, str] = TimelineDict(timeline)  # by instance id
        self.targets: TimelineDict[str, Partitions] = TimelineDict(timeline)  # by member id
        self.resolved: TimelineDict[str, ResolvedRegularExpression] = TimelineDict(timeline)
        self.topic_counts: TimelineDict[str, int] = TimelineDict(timeline)  # members, by name
        self.pattern_counts: TimelineDict[str, int] = TimelineDict(timeline)  # members
        self.pattern_topics: TimelineDict[str, int] = TimelineDict(timeline)  # patterns
        self.assignor_counts: TimelineDict[str, int] = TimelineDict(timeline)  # members
        self._facts: TimelineDict[RecordKind, Any] = TimelineDict(timeline)  # of the whole group
        self.owners: TimelineDict[Place, int] = TimelineDict(timeline)  # their epochs
        self._knows_owners = knows_owners
        self.joins = 0  # members that have come since this group is here; never goes back
        self._take: dict[RecordKind, Callable[[str, Any], None]] = {
            RecordKind.GROUP_METADATA: self._take_metadata,
            RecordKind.PARTITION_METADATA: self._take_partition_metadata,
            RecordKind.MEMBER_METADATA: self._take_member,
            RecordKind.TARGET_ASSIGNMENT_METADATA: self._take_target_metadata,
            RecordKind.TARGET_ASSIGNMENT_MEMBER: self._take_target,
            RecordKind.CURRENT_MEMBER_ASSIGNMENT: self._take_assignment,
            RecordKind.REGULAR_EXPRESSION: self._take_pattern,
        }

    # ---- queries

    @property
    def metadata(self) -> GroupMetadata:
        """Epoch and metadata hash."""
        found: GroupMetadata = self._facts.get(RecordKind.GROUP_METADATA, _NEW_GROUP)
        return found

    @property
    def epoch(self) -> int:
        return self.metadata.epoch

    @property
    def target_metadata(self) -> TargetAssignmentMetadata:
        """The epoch that the target is for, and when it was computed."""
        found: TargetAssignmentMetadata = self._facts.get(
            RecordKind.TARGET_ASSIGNMENT_METADATA, _NEW_TARGET
        )
        return found

    @property
    def is_recorded(self) -> bool:
        """Whether the log has, or is about to get, an epoch of this group."""
        return RecordKind.GROUP_METADATA in self._facts or bool(self.members)

    @property
    def has_partition_metadata(self) -> bool:
        """Whether the log has what brokers before Kafka 4.1 wrote of the group's topics."""
        return RecordKind.PARTITION_METADATA in self._facts

    @property
    def state(self) -> ConsumerGroupState:
        """Every member is looked at; asked by people, and by nothing that happens often."""
        target_epoch = self.target_metadata.assignment_epoch
        return _state(self.members.values(), self.epoch, target_epoch)

    # ---- what is stored

    @property
    def is_stored(self) -> bool:
        """Whether the log has an epoch or a member of this group for sure."""
        has_epoch = self._facts.stored(RecordKind.GROUP_METADATA) is not None
        return has_epoch or bool(self.stored_members())

    @property
    def stored_metadata(self) -> GroupMetadata:
        return self._facts.stored(RecordKind.GROUP_METADATA) or _NEW_GROUP

    @property
    def stored_target_metadata(self) -> TargetAssignmentMetadata:
        return self._facts.stored(RecordKind.TARGET_ASSIGNMENT_METADATA) or _NEW_TARGET

    @property
    def stored_state(self) -> ConsumerGroupState:
        """The state that the log has for sure."""
        target_epoch = self.stored_target_metadata.assignment_epoch
        return _state(self.stored_members(), self.stored_metadata.epoch, target_epoch)

    def stored_members(self) -> list[Member]:
        """The members that the log has for sure."""
        members = (self.members.stored(each) for each in self.members.stored_keys())
        return [member for member in members if member is not None]

    # ---- more queries

    def static_member(self, instance_id: str) -> Member | None:
        """The member that has this instance id."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target(self, member_id: str) -> Partitions:
        """The partitions that a member is to have."""
        return self.targets.get(member_id, NO_PARTITIONS)

    def owner_epoch(self, topic_id: UUID, partition: int) -> int:
        """The epoch of the member that has a partition, or has not given it up yet; UNOWNED."""
        return self.owners.get((topic_id.int, partition), UNOWNED)

    def follows(self, topic: str) -> bool:
        """Whether a member subscribes to a topic."""
        return topic in self.topic_counts or topic in self.pattern_topics

    def may_follow(self, topic: str) -> bool:
        """Whether a member subscribes to a topic, or will again if a write is refused."""
        if self.follows(topic):
            return True
        return not (self.topic_counts.is_stored(topic) and self.pattern_topics.is_stored(topic))

    def topics(self) -> frozenset[str]:
        """The topics that members subscribe to, also those that do not exist."""
        return frozenset(chain(self.topic_counts, self.pattern_topics))

    @property
    def last_unstored_write(self) -> int | None:
        """The newest write that has changed the group and is not stored, as `Shard.wait_for` takes
        it; None if all is stored.
        """
        numbers = [each.last_write for each in self._all_entries() if not each.are_stored]
        return max(numbers, default=None)

    def is_at_rest_in(self, epoch: int) -> bool:
        """Whether the group and its target are in that epoch, all of that is stored, and there is
        no pattern to be looked at.
        """
        return (
            self.epoch == epoch
            and self.target_metadata.assignment_epoch == epoch
            and not self.pattern_counts
            and self.members.are_stored
            and self.targets.are_stored
            and self._facts.are_stored
            and self.resolved.are_stored
        )

    def _all_entries(self) -> Iterable[TimelineDict[Any, Any]]:
        """Answer for those that follow from these, too."""
        return self.members, self.targets, self._facts, self.resolved

    # ---- changes

    def apply(self, change: Change) -> None:
        """A change was written just now, or read."""
        self._take[change.kind](change.name, change.value)

    def _take_metadata(self, _name: str, value: GroupMetadata | None) -> None:
        _put(self._facts, RecordKind.GROUP_METADATA, value)
        if value is None:  # whoever joins while the end is on its way begins a new group
            self._facts.pop(RecordKind.TARGET_ASSIGNMENT_METADATA, None)

    def _take_partition_metadata(self, _name: str, value: bool | None) -> None:
        _put(self._facts, RecordKind.PARTITION_METADATA, value)

    def _take_target_metadata(self, _name: str, value: TargetAssignmentMetadata | None) -> None:
        self._facts[RecordKind.TARGET_ASSIGNMENT_METADATA] = _NO_TARGET if value is None else value

    def _take_target(self, member_id: str, value: Partitions | None) -> None:
        _put(self.targets, member_id, value)

    def _take_member(self, member_id: str, value: MemberMetadata | None) -> None:
        before = self.members.get(member_id)
        if value is not None:
            member = Member(member_id) if before is None else before
            self._replace(before, member._replace(metadata=value))
        elif before is not None:
            self._replace(before, None)

    def _take_assignment(self, member_id: str, value: CurrentMemberAssignment | None) -> None:
        before = self.members.get(member_id)
        if value is not None:
            member = Member(member_id) if before is None else before
            self._replace(before, member._replace(current=value))
        elif before is not None:
            self._replace(before, before._replace(current=NO_ASSIGNMENT))

    def _take_pattern(self, pattern: str, value: ResolvedRegularExpression | None) -> None:
        before = self.resolved.get(pattern)
        _put(self.resolved, pattern, value)
        former = _NO_NAMES if before is None else before.topics
        topics = _NO_NAMES if value is None else value.topics
        counts = self.pattern_topics
        for topic in former - topics:
            _count(counts, topic, -1)
        counts.put_all((topic, counts.get(topic, 0) + 1) for topic in topics - former)

    # ---- what follows from members

    def _replace(self, before: Member | None, after: Member | None) -> None:
        """Put a member in its place; `before` is None if it comes, `after` if it goes."""
        self.joins += before is None
        if after is None:
            assert before is not None
            del self.members[before.member_id]
        else:
            self.members[after.member_id] = after
        old = None if before is None else before.metadata
        new = None if after is None else after.metadata
        if old is not new:
            self._count_subscriptions(old, new)
            self._index_instance(before, after)
        if not self._knows_owners:
            return
        if before is None or after is None or before.current is not after.current:
            self._own(before, after)

    def _count_subscriptions(self, old: MemberMetadata | None, new: MemberMetadata | None) -> None:
        before = _NO_NAMES if old is None else old.subscribed_topic_names
        after = _NO_NAMES if new is None else new.subscribed_topic_names
        for topic in before - after:
            _count(self.topic_counts, topic, -1)
        counts = self.topic_counts
        counts.put_all((topic, counts.get(topic, 0) + 1) for topic in after - before)
        for metadata, by in ((old, -1), (new, 1)):
            if metadata is None:
                continue
            if metadata.subscribed_topic_regex:
                _count(self.pattern_counts, metadata.subscribed_topic_regex, by)
            if metadata.server_assignor is not None:
                _count(self.assignor_counts, metadata.server_assignor, by)

    def _index_instance(self, before: Member | None, after: Member | None) -> None:
        """A member that takes another's place is read before or after that one's end."""
        if after is not None and after.instance_id is not None:
            self.static_members[after.instance_id] = after.member_id
        elif before is not None and before.instance_id is not None:
            owner = self.static_members.get(before.instance_id)
            if owner == before.member_id:
                del self.static_members[before.instance_id]

    def find_owners(self) -> None:
        """From now on owners follow from members."""
        if not self._knows_owners:
            self._knows_owners = True
            for member in self.members.values():
                self._own(None, member)

    def _own(self, before: Member | None, after: Member | None) -> None:
        owners = self.owners
        if after is not None and (after.assigned or after.revoking):
            owners.put_all(self._owned(before, after))
        if before is not None:
            for topic_id, partition in _given_up(before, after):
                place = topic_id.int, partition
                if owners.get(place) == before.epoch:
                    del owners[place]

    def _owned(self, before: Member | None, after: Member) -> Iterator[tuple[Place, int]]:
        """The partitions whose owner's epoch is another one once a member has changed."""
        get, epoch = self.owners.get, after.epoch
        for partitions in (after.assigned, after.revoking):
            for topic_id, epochs in partitions.items():
                number = topic_id.int
                for each in epochs:
                    newest = get((number, each))
                    if newest is None or newest < epoch:
                        yield (number, each), epoch
                    elif newest > epoch and _was_in(before, newest) and before.has(topic_id, each):
                        yield (number, each), epoch  # it is AWAY, and owns it still


def _was_in(before: Member | None, epoch: int) -> TypeGuard[Member]:
    return before is not None and before.epoch == epoch


def _given_up(before: Member, after: Member | None) -> Iterable[tuple[UUID, int]]:
    """The partitions that a member had, and has not any more."""
    had = before.assigned, before.revoking
    if after is None:
        return chain.from_iterable(map(each_partition, had))
    assigned = after.assigned
    return (
        (topic_id, each)
        for partitions in had
        for topic_id, epochs in partitions.items()
        if assigned.get(topic_id) is not epochs
        for each in epochs
        if not after.has(topic_id, each)
    )


def _state(members: Collection[Member], epoch: int, target_epoch: int) -> ConsumerGroupState:
    if not members:
        return ConsumerGroupState.EMPTY
    if epoch > target_epoch:
        return ConsumerGroupState.ASSIGNING
    if all(member.is_reconciled_to(target_epoch) for member in members):
        return ConsumerGroupState.STABLE
    return ConsumerGroupState.RECONCILING


def _put(entries: TimelineDict[Any, Any], key: object, value: object) -> None:
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value


def _count(entries: TimelineDict[K, int], key: K, by: int) -> None:
    count = entries.get(key, 0) + by
    _put(entries, key, count or None)


def counted(entries: Mapping[str, int], *changes: tuple[str, int]) -> dict[str, int]:
    """Counts after these changes; what nobody has any more is not in it."""
    found = dict(entries.items())  # of a TimelineDict in a tenth of the time
    for key, by in changes:
        count = found.get(key, 0) + by
        if count:
            found[key] = count
        else:
            found.pop(key, None)
    return found
