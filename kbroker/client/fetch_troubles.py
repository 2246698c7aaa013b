"""Reasons that keep a reader waiting: topics that cannot be read now, and open transactions.

Pure. Law: a sentence is said once, and only after a while, because elections and most transactions
end within a moment. Topics with the same trouble share a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kbroker.model import TopicPartition
from kbroker.protocol.messages.fetch import FetchResponse

_SAID_AFTER_S = 1.0  # an election takes no longer
_NAMED_MAX = 3
_WAITS_S = 5.0  # most producers commit more often


@dataclass(slots=True)
class _Trouble:
    reason: str
    since_s: float
    partitions: set[int] = field(default_factory=set)
    is_said: bool = False


class Troubles:
    """The topics that cannot be read; `tell` gets each sentence."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._by_topic: dict[str, _Trouble] = {}
        self._back: list[str] = []  # topics that could not be read, which was said, and now can

    def __bool__(self) -> bool:
        """Whether any partition cannot be read."""
        return bool(self._by_topic)

    def topics(self) -> list[str]:
        """The topics with a partition that cannot be read."""
        return list(self._by_topic)

    def add(self, places: Iterable[TopicPartition], reason: str, now_s: float) -> None:
        """Note partitions that cannot be read."""
        for topic, partition in places:
            trouble = self._by_topic.setdefault(topic, _Trouble(reason, now_s))
            trouble.reason = reason
            trouble.partitions.add(partition)

    def explain(self, topic: str, reason: str) -> None:
        """Replace the reason of a trouble by a better one."""
        if topic in self._by_topic:
            self._by_topic[topic].reason = reason

    def end(self, place: TopicPartition) -> None:
        """Note that a partition can be read again."""
        trouble = self._by_topic.get(place.topic)
        if trouble is None:
            return
        trouble.partitions.discard(place.partition)
        if not trouble.partitions:
            del self._by_topic[place.topic]
            if trouble.is_said:
                self._back.append(place.topic)

    def say_again(self, topic: str) -> None:
        """Make a trouble news again, because something else was said of its topic."""
        if topic in self._by_topic:
            self._by_topic[topic].is_said = False

    def longest(self, now_s: float) -> tuple[str, float]:
        """Return the reason of the oldest trouble, and for how many seconds it has lasted."""
        oldest = min(self._by_topic.values(), key=lambda trouble: trouble.since_s)
        return oldest.reason, now_s - oldest.since_s

    def say(self, now_s: float) -> None:
        """Say which troubles are news."""
        due = [
            trouble
            for trouble in self._by_topic.values()
            if not trouble.is_said and now_s - trouble.since_s > _SAID_AFTER_S
        ]
        for reason in dict.fromkeys(trouble.reason for trouble in due):
            self._tell(f"{reason}; waiting")
        for trouble in due:
            trouble.is_said = True

    def say_what_is_back(self) -> None:
        """Say which topics can be read again."""
        if self._back:
            self._tell(f"{_named(self._back)} can be read again")
            self._back = []


class OpenWaits:
    """The open transactions at which a read_committed reader waits, by partition."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, tuple[int, float]] = {}  # offset, first seen
        self._said: dict[TopicPartition, int] = {}

    def is_news(
        self, place: TopicPartition, position: int, data: FetchResponse.PartitionData, now_s: float
    ) -> bool:
        """Whether a reader that is at `position` after this answer has waited for long enough at
        the open transaction at `data.last_stable_offset`.
        """
        offset = data.last_stable_offset
        if not 0 <= offset < data.high_watermark or position < offset:
            self._since.pop(place, None)
            return False
        known, since_s = self._since.get(place, (None, now_s))
        if known != offset:
            since_s = now_s
        self._since[place] = offset, since_s
        if now_s - since_s < _WAITS_S or self._said.get(place) == offset:
            return False
        self._said[place] = offset
        return True


def _named(topics: list[str]) -> str:
    """`a`, `a and b`, `a, b, c and 4 more topics`."""
    if len(topics) > _NAMED_MAX + 1:
        more = f"{len(topics) - _NAMED_MAX} more topics"
        topics = [*topics[:_NAMED_MAX], more]
    *most, last = topics
    return f"{', '.join(most)} and {last}" if most else last
