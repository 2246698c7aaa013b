"""Troubles: which topics cannot be read now, why, and the sentences about it.

Law: a sentence is said once, and only after a while: an election is not news. Topics with the same
trouble share a sentence. No socket, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kbroker.model import TopicPartition

_SAID_AFTER_S = 1.0  # an election takes no longer
_NAMED_MAX = 3


@dataclass(slots=True)
class _Trouble:
    reason: str
    since_s: float
    partitions: set[int] = field(default_factory=set)
    is_told: bool = False


class Troubles:
    """`tell` gets each sentence."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._by_topic: dict[str, _Trouble] = {}
        self._back: list[str] = []  # topics that could not be read, which was said, and now can

    def __bool__(self) -> bool:
        """Whether any partition cannot be read."""
        return bool(self._by_topic)

    def topics(self) -> list[str]:
        """Those with a partition that cannot be read."""
        return list(self._by_topic)

    def add(self, places: Iterable[TopicPartition], reason: str, now_s: float) -> None:
        """Partitions that cannot be read."""
        for topic, partition in places:
            trouble = self._by_topic.setdefault(topic, _Trouble(reason, now_s))
            trouble.reason = reason
            trouble.partitions.add(partition)

    def explain(self, topic: str, reason: str) -> None:
        """There is a better reason than the one before."""
        if topic in self._by_topic:
            self._by_topic[topic].reason = reason

    def end(self, place: TopicPartition) -> None:
        """A partition can be read."""
        trouble = self._by_topic.get(place.topic)
        if trouble is None:
            return
        trouble.partitions.discard(place.partition)
        if not trouble.partitions:
            del self._by_topic[place.topic]
            if trouble.is_told:
                self._back.append(place.topic)

    def say_again(self, topic: str) -> None:
        """Something else was said of this topic: what is in its way is news again."""
        if topic in self._by_topic:
            self._by_topic[topic].is_told = False

    def longest(self, now_s: float) -> tuple[str, float]:
        """The reason of the oldest trouble, and its seconds so far."""
        oldest = min(self._by_topic.values(), key=lambda trouble: trouble.since_s)
        return oldest.reason, now_s - oldest.since_s

    def say(self, now_s: float) -> None:
        """Say what has not been said of what is in the way."""
        due = [
            trouble
            for trouble in self._by_topic.values()
            if not trouble.is_told and now_s - trouble.since_s > _SAID_AFTER_S
        ]
        for reason in dict.fromkeys(trouble.reason for trouble in due):
            self._tell(f"{reason}; waiting")
        for trouble in due:
            trouble.is_told = True

    def say_what_is_back(self) -> None:
        """Say what can be read again."""
        if self._back:
            self._tell(f"{_named(self._back)} can be read again")
            self._back = []


def _named(topics: list[str]) -> str:
    """`a`, `a and b`, `a, b, c and 4 more topics`."""
    if len(topics) > _NAMED_MAX + 1:
        more = f"{len(topics) - _NAMED_MAX} more topics"
        topics = [*topics[:_NAMED_MAX], more]
    *most, last = topics
    return f"{', '.join(most)} and {last}" if most else last
