"""TopicFollowers: which groups may subscribe to a topic, to be woken when it changes.

Pure. Law: a group that subscribes to a topic, or will again if a write is refused, is found under
it. One that does not any more may still be found, and is let go when it was looked at: when the
topic changes, and once there are twice as many entries as were left by the last look at all. So
members that go from topic to topic leave no more behind than what is in use.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

_FEW = 1_000  # entries that nobody looks at


class TopicFollowers:
    """Owned by the event loop."""

    def __init__(self) -> None:
        self._groups: dict[str, set[str]] = {}  # ids, by name of the topic
        self._count = 0  # of groups, each as often as it is found
        self._most = _FEW  # after which all are looked at
        self._unseen: deque[str] = deque()  # topics that are still to be looked at

    def __len__(self) -> int:
        return self._count

    def follow(self, topics: Iterable[str], group_id: str) -> int:
        """A group subscribes to topics; returns how many of them it was not found under."""
        before = self._count
        for topic in topics:
            groups = self._groups.setdefault(topic, set())
            self._count += group_id not in groups
            groups.add(group_id)
        return self._count - before

    def of(self, topic: str) -> list[str]:
        """The ids of the groups that may subscribe to a topic."""
        return list(self._groups.get(topic, ()))

    def leave(self, topic: str, group_id: str) -> None:
        """A group does not subscribe to a topic, and will not again by itself."""
        groups = self._groups.get(topic, set())
        self._count -= group_id in groups
        groups.discard(group_id)
        if not groups:
            self._groups.pop(topic, None)

    def to_look_at(self, least: int) -> Iterator[tuple[str, str]]:
        """Yield topics with groups to be looked at, at least so many if all are due: whoever adds
        entries looks at twice as many, so that nobody has to look at all of them at once.
        """
        if not self._unseen and self._count > self._most:
            self._unseen.extend(self._groups)
        seen = 0
        while self._unseen and seen < least:
            topic = self._unseen.popleft()
            for group_id in self.of(topic):
                seen += 1
                yield topic, group_id
            if not self._unseen:
                self._most = 2 * self._count + _FEW
