"""The last events of each group and of each partition.

Pure. Law: bounded, whatever happens and whatever names clients choose: `EACH` events of one group
or partition, about `TOTAL_BYTES` of all. What nothing has happened to for longest is forgotten
first, and what is older than a day is not shown. A group or partition without events takes up
nothing.

Owned by the event loop.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import NamedTuple

from kbroker.events.event import Event
from kbroker.model import TopicPartition

EACH = 20
TOTAL_BYTES = 4 * 1024 * 1024
FORGOTTEN_AFTER_MS = 24 * 3_600_000
_EVENT_BYTES = 2_000  # with long names; clients' texts are cut, with short ones it has 700

_Key = str | TopicPartition | None


class Noted(NamedTuple):
    """An event and when it happened, as Unix time in milliseconds; `number` counts all events."""

    at_ms: int
    event: Event
    number: int


class EventHistory:
    """The last events, the oldest first wherever they are returned."""

    __slots__ = ("_bytes", "_count", "_kept")

    def __init__(self) -> None:
        # By group, partition, or None for what is about neither; what came last stands last.
        self._kept: OrderedDict[_Key, deque[Noted]] = OrderedDict()
        self._bytes = 0
        self._count = 0

    def __len__(self) -> int:
        """Return how many events are kept."""
        return sum(map(len, self._kept.values()))

    def add(self, event: Event, now_ms: int) -> None:
        """Keep an event that happens now, and forget what there is no room for."""
        group = event.group
        key: _Key = group if group is not None else event.topic_partition
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = deque()
        else:
            self._kept.move_to_end(key)
        self._count += 1
        kept.append(Noted(now_ms, event, self._count))
        if len(kept) > EACH:
            kept.popleft()
        else:
            self._bytes += _bytes_with(key)
        while self._bytes > TOTAL_BYTES:
            self._forget_oldest()

    def of_group(self, group_id: str, now_ms: int) -> list[Noted]:
        """Return the last events of a group, at most `EACH`."""
        return _young(self._kept.get(group_id, ()), now_ms)

    def of_partition(self, topic_partition: TopicPartition, now_ms: int) -> list[Noted]:
        """Return the last events of a partition, at most `EACH`."""
        return _young(self._kept.get(topic_partition, ()), now_ms)

    def recent(self, now_ms: int, most: int = 100) -> list[Noted]:
        """Return the last events of all that are kept, at most `most`."""
        found = [noted for kept in self._kept.values() for noted in _young(kept, now_ms)]
        found.sort(key=lambda noted: noted.number)
        return found[-most:]

    def _forget_oldest(self) -> None:
        key, kept = self._kept.popitem(last=False)
        self._bytes -= _bytes_with(key) * len(kept)


def row_of(noted: Noted) -> dict[str, str | int]:
    """Return an event as a row for people and programs: `at_ms`, `event`, `cause`, `message`, and
    the event's own fields.
    """
    event = noted.event
    return {
        "at_ms": noted.at_ms,
        "event": event.name,
        "cause": event.cause,
        "message": event.sentence(),
        **event.fields(),
    }


def _bytes_with(key: _Key) -> int:
    """The bytes of an event: each may have a name of its own, of a group that was made again."""
    return _EVENT_BYTES + (len(key) if isinstance(key, str) else 0)


def _young(kept: deque[Noted] | tuple[()], now_ms: int) -> list[Noted]:
    return [noted for noted in kept if now_ms - noted.at_ms < FORGOTTEN_AFTER_MS]
