"""Even shares for members who read different topics.

Pure. Members keep what they have of topics to which they still subscribe. What is free goes to the
subscribers with the least, topic by topic; then partitions move from those with the most to those
with the least, until no topic has two subscribers who are more than one partition apart, or could
not help it, or all topics were looked at `ROUNDS` times. Each step is Kafka's, so that the same
partitions move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice
from typing import Final
from uuid import UUID

from kbroker.coordinator.consumer_group.assignors.assignor import Assignment, GroupSpec, Topics
from kbroker.coordinator.consumer_group.assignors.previous_owners import previous_assignments
from kbroker.coordinator.consumer_group.assignors.subscribers import subscribers_by_topic
from kbroker.coordinator.consumer_group.assignors.uniform_homogeneous import unknown_topic

ROUNDS: Final = 16
_NOBODY: Final = -1
_SIGNS: Final = 1 << 127 | 1 << 63  # of the halves of an id, which Java compares as signed numbers


def assign_evenly(spec: GroupSpec, topics: Topics) -> dict[str, Assignment]:
    """The new targets of a group with members. Raises AssignorError."""
    subscribers = subscribers_by_topic(spec.members.values())
    for topic_id in subscribers:
        if topics.partition_count(topic_id) < 0:
            raise unknown_topic(topic_id)
    shares = _Shares(subscribers, topics, len(spec.members))
    previous, _ = previous_assignments(spec.members, topics)
    for place, (member, assignment) in enumerate(zip(spec.members.values(), previous, strict=True)):
        shares.keep(place, assignment, member.topic_ids)
    shares.hand_out()
    shares.balance()
    return dict(zip(spec.members, shares.assignments(), strict=True))


class _Shares:
    """The share of each member so far; members are known by their places."""

    def __init__(
        self, subscribers: dict[UUID, list[int]], topics: Topics, member_count: int
    ) -> None:
        self._subscribers = subscribers
        self._sizes = [0] * member_count
        self._owners = {
            topic_id: [_NOBODY] * topics.partition_count(topic_id) for topic_id in subscribers
        }
        self._in_order = sorted(subscribers, key=self._rank)
        self._level: set[int] = set()  # lists of subscribers without a difference, by id

    def _rank(self, topic_id: UUID) -> tuple[float, int, int]:
        """Topics with the most partitions for each subscriber come first."""
        count, readers = len(self._owners[topic_id]), len(self._subscribers[topic_id])
        return -count / readers, readers, topic_id.int ^ _SIGNS

    def keep(self, place: int, assignment: Assignment, topic_ids: frozenset[UUID]) -> None:
        """Give a member what it has already, of the topics to which it subscribes."""
        for topic_id, partitions in assignment.items():
            if topic_id in topic_ids:
                owners = self._owners[topic_id]
                for partition in partitions:
                    owners[partition] = place
                self._sizes[place] += len(partitions)

    def hand_out(self) -> None:
        """Give away what nobody has."""
        for topic_id in self._in_order:
            owners = self._owners[topic_id]
            free = [partition for partition, owner in enumerate(owners) if owner == _NOBODY]
            if free:
                takers = self._takers(self._subscribers[topic_id], len(free))
                for partition, taker in zip(free, takers, strict=False):
                    owners[partition] = taker
                    self._sizes[taker] += 1

    def _takers(self, subscribers: list[int], count: int) -> Iterable[int]:
        if count == 1:  # of a thousand subscribers there is no need to sort all
            return (min(subscribers, key=self._sizes.__getitem__),)
        return _Levels(subscribers, self._sizes).least_loaded()

    def balance(self) -> None:
        """Move partitions to those who have less."""
        shared = [one for one in self._in_order if len(self._subscribers[one]) > 1]
        last_changed = None
        for topic_id in islice(cycle(shared), ROUNDS * len(shared)):
            if topic_id == last_changed:
                return  # all others were looked at since
            if self._moves_some(topic_id) or last_changed is None:
                last_changed = topic_id

    def _moves_some(self, topic_id: UUID) -> bool:
        subscribers = self._subscribers[topic_id]
        if self._are_level(subscribers):
            return False
        owners, sizes = self._owners[topic_id], self._sizes
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        levels = _Levels(subscribers, sizes)
        moved = False
        takers = levels.least_loaded()
        for giver in levels.most_loaded(owned):
            taker = next(takers)
            if levels.high - levels.low <= 1:
                break
            owners[owned[giver].pop()] = taker
            sizes[giver] -= 1
            sizes[taker] += 1
            moved = True
        if moved:
            self._level.clear()
        return moved

    def _are_level(self, subscribers: list[int]) -> bool:
        known_by = id(subscribers)
        if known_by not in self._level:
            sizes = [self._sizes[place] for place in subscribers]
            if max(sizes) - min(sizes) > 1:
                return False
            self._level.add(known_by)
        return True

    def assignments(self) -> list[Assignment]:
        """Return the share of each member."""
        of_members: list[dict[UUID, frozenset[int]]] = [{} for _ in self._sizes]
        for topic_id, owners in self._owners.items():
            owned: dict[int, list[int]] = {}
            for partition, owner in enumerate(owners):
                owned.setdefault(owner, []).append(partition)
            for owner, partitions in owned.items():
                of_members[owner][topic_id] = frozenset(partitions)
        return list(of_members)


class _Levels:
    """Subscribers of a topic, those with the least first: partitions come to one end, and may leave
    from the other.

    At both ends is a range of members who had the same number when their turn began; when each of
    them has had one more, or one less, the range takes in those who have that number as well.
    """

    def __init__(self, subscribers: Sequence[int], sizes: list[int]) -> None:
        """`sizes` changes as partitions move."""
        self._members = sorted(subscribers, key=sizes.__getitem__)
        self._sizes = sizes
        self.low = sizes[self._members[0]] - 1
        self.high = sizes[self._members[-1]] + 1

    def least_loaded(self) -> Iterator[int]:
        """Give the members who take the next partitions, without end; each gets one."""
        members, sizes = self._members, self._sizes
        end = 0
        while True:
            self.low += 1
            while end < len(members) and sizes[members[end]] == self.low:
                end += 1
            for at in range(end):
                yield members[at]

    def most_loaded(self, owned: dict[int, list[int]]) -> Iterator[int]:
        """Give the members who give up a partition of those they own, as long as it helps."""
        members, sizes = self._members, self._sizes
        start = end = len(members)
        while end and (self.high - self.low > 1):
            self.high = sizes[members[start - 1]] if start == end else self.high - 1
            while start and sizes[members[start - 1]] == self.high:
                start -= 1
            for at in range(end - 1, start - 1, -1):
                member = members[at]
                if owned.get(member):
                    yield member
                else:  # it goes beyond the range
                    end -= 1
                    members[at], members[end] = members[end], member
