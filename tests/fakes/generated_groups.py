"""Histories of consumer groups, drawn from a seed: who subscribes to what, and what has changed when
an assignor is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import NamedTuple
from uuid import UUID

from kbroker.coordinator.consumer_group.assignors.assignor import (
    Assignment,
    Assignor,
    GroupSpec,
    MemberSpec,
    SubscriptionType,
    Topics,
    order_of_members,
)

RACKS = ("", "r0", "r1", "r2")
STEPS = 6


class Wish(NamedTuple):
    """A member; `had` is what it has, or whose last target it takes over."""

    instance_id: str
    rack_id: str
    topic_ids: frozenset[UUID]
    had: Assignment | str


class Step(NamedTuple):
    """A question to an assignor."""

    assignor: str
    topics: dict[UUID, int]
    members: dict[str, Wish]  # in the order of their joining
    joining: str | None  # the last of them, if it comes with this step

    @property
    def subscription_type(self) -> SubscriptionType:
        """As the coordinator has it."""
        kinds = {wish.topic_ids for wish in self.members.values()}
        return SubscriptionType.HETEROGENEOUS if len(kinds) > 1 else SubscriptionType.HOMOGENEOUS


class Asked(NamedTuple):
    """A step with what its assignor got and said."""

    step: Step
    spec: GroupSpec
    topics: Topics
    targets: Mapping[str, Assignment]


def play(history: list[Step], assignors: Mapping[str, Assignor]) -> Iterator[Asked]:
    """Ask assignors; each step begins with the targets of the one before."""
    last: Mapping[str, Assignment] = {}
    for step in history:
        before = [member_id for member_id in step.members if member_id != step.joining]
        members = {
            member_id: _spec(step.members[member_id], last)
            for member_id in order_of_members(before, step.joining)
        }
        spec, topics = GroupSpec(members, step.subscription_type), Topics(step.topics)
        last = assignors[step.assignor].assign(spec, topics)
        yield Asked(step, spec, topics, last)


def _spec(wish: Wish, last: Mapping[str, Assignment]) -> MemberSpec:
    had = last.get(wish.had, {}) if isinstance(wish.had, str) else wish.had
    return MemberSpec(wish.instance_id or None, wish.rack_id or None, wish.topic_ids, had)


def history(seed: int) -> list[Step]:
    """The steps of one group."""
    draw = _Draw(Random(seed))
    steps = [draw.step()]
    for _ in range(draw.random.randrange(STEPS)):
        draw.change()
        steps.append(draw.step())
    return steps


class _Draw:
    """A group on its way."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._many = random.choice((3, 6, 40, 40, 300))
        self._assignor = random.choice(("uniform", "uniform", "uniform", "range"))
        self._style = random.choice((self._all, self._all, self._one_of_two, self._some, self._few))
        same = random.choice((0, 0, random.randint(1, self._many)))
        self._topics = {
            self._id(): same or self._count() for _ in range(random.choice((1, 2, 3, 5, 8, 13)))
        }
        self._two = [self._some(), self._some()]
        self._is_static = random.choice((0, 0, 0.5, 1))
        self._instances = 0
        self._members: dict[str, Wish] = {}
        for _ in range(random.choice((1, 2, 3, 5, 8, 13, 30))):
            self._join()
        if random.random() < 0.5:
            self._find_in_some_state()

    def step(self) -> Step:
        latest, wish = next(reversed(self._members.items()))
        joining = latest if wish.had == {} else None
        found = Step(self._assignor, dict(self._topics), dict(self._members), joining)
        self._members = {one: wish._replace(had=one) for one, wish in self._members.items()}
        return found

    def change(self) -> None:
        """Let one to three things happen."""
        for _ in range(self.random.choice((1, 1, 2, 3))):
            self.random.choice(
                (self._join, self._join, self._leave, self._leave, self._come_back, self._subscribe,
                 self._grow, self._remove_topic, self._add_topic, self._choose_assignor)
            )()  # fmt: skip

    def _join(self) -> None:
        instance = ""
        if self.random.random() < self._is_static:
            self._instances += 1
            instance = f"i{self.random.randrange(100)}-{self._instances}"
        self._members[str(self._id())] = self._wish(instance, {})

    def _wish(self, instance_id: str, had: Assignment | str) -> Wish:
        return Wish(instance_id, self.random.choice(RACKS), self._style(), had)

    def _leave(self) -> None:
        if len(self._members) > 1:
            del self._members[self._somebody()]

    def _come_back(self) -> None:
        """A member with another id, who takes the target over if it is a static one."""
        before = self._somebody()
        wish = self._members.pop(before)
        self._members[str(self._id())] = wish if wish.instance_id else wish._replace(had={})

    def _subscribe(self) -> None:
        if self._style == self._all:
            self._style = self.random.choice((self._all, self._some))
        member_id = self._somebody()
        self._members[member_id] = self._members[member_id]._replace(topic_ids=self._style())

    def _grow(self) -> None:
        topic_id = self.random.choice(list(self._topics))
        self._topics[topic_id] += self.random.randint(1, 4)

    def _remove_topic(self) -> None:
        if len(self._topics) > 1:
            gone = self.random.choice(list(self._topics))
            del self._topics[gone]
            self._resubscribe(lambda topic_ids: topic_ids - {gone})
            self._two = [kind - {gone} for kind in self._two]

    def _add_topic(self) -> None:
        came = self._id()
        self._topics[came] = self._count()
        if self._style == self._all:
            self._resubscribe(lambda topic_ids: topic_ids | {came})

    def _resubscribe(self, change: Callable[[frozenset[UUID]], frozenset[UUID]]) -> None:
        self._members = {
            one: wish._replace(topic_ids=change(wish.topic_ids))
            for one, wish in self._members.items()
        }

    def _choose_assignor(self) -> None:
        self._assignor = self.random.choice(("uniform", "range"))

    def _find_in_some_state(self) -> None:
        """Somebody has each partition, or nobody, also of topics that are not there any more."""
        had: dict[str, dict[UUID, set[int]]] = {one: {} for one in self._members}
        favourites = self.random.sample(list(had), self.random.randint(1, len(had)))
        left_out = self.random.choice((0, 0, 0.3))
        for topic_id, count in [*self._topics.items(), (self._id(), 3)]:
            for partition in range(count):
                if self.random.random() >= left_out:
                    its = had[self.random.choice(favourites)]
                    its.setdefault(topic_id, set()).add(partition)
        for one, its in had.items():
            frozen = {topic_id: frozenset(partitions) for topic_id, partitions in its.items()}
            self._members[one] = self._members[one]._replace(had=frozen)

    def _all(self) -> frozenset[UUID]:
        return frozenset(self._topics)

    def _one_of_two(self) -> frozenset[UUID]:
        return self.random.choice(self._two)

    def _some(self) -> frozenset[UUID]:
        return frozenset(one for one in self._topics if self.random.random() < 0.6)

    def _few(self) -> frozenset[UUID]:
        return frozenset(self.random.choices(list(self._topics), k=self.random.randrange(4)))

    def _somebody(self) -> str:
        return self.random.choice(list(self._members))

    def _count(self) -> int:
        return self.random.randint(1, self._many)

    def _id(self) -> UUID:
        return UUID(int=self.random.getrandbits(128), version=4)
