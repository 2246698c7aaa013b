"""TopicFollowers: which groups may subscribe to a topic, to be woken when it changes.

Pure. Law: a group that subscribes to a topic, or will again if a write is refused, is found under
it. One that does not any more may still be found, and is let go when it was looked at.
"""

from __future__ import annotations

from collections.abc import Iterable


class TopicFollowers:
    """Owned by the event loop."""

    def __init__(self) -> None:
        self._groups: dict[str, set[str]] = {}  # ids, by name of the topic

    def follow(self, topics: Iterable[str], group_id: str) -> None:
        """A group subscribes to topics."""
        for topic in topics:
            self._groups.setdefault(topic, set()).add(group_id)

    def of(self, topic: str) -> list[str]:
        """The ids of the groups that may subscribe to a topic."""
        return list(self._groups.get(topic, ()))

    def leave(self, topic: str, group_id: str) -> None:
        """A group does not subscribe to a topic, and will not again by itself."""
        groups = self._groups[topic]
        groups.discard(group_id)
        if not groups:
            del self._groups[topic]
