"""The offsets of a group that are in transactions: open ones, and those whose end is not stored.

Pure. Law: a group may have very many writers, each with a transaction of its own, so what is asked
of one partition or of one producer must not look at the others. Both indexes hold exactly what is
pending: an entry is there from its first change until it is gone and that is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from kbroker.coordinator.runtime.timeline import Timeline, TimelineDict
from kbroker.model import TopicPartition

V = TypeVar("V")


class PendingKey(NamedTuple):
    """A producer whose transaction has an offset of a partition."""

    producer_id: int
    partition: TopicPartition


class PendingOffsets(TimelineDict[PendingKey, V]):
    """Owned by the offsets of its group, which knows what its values are."""

    __slots__ = ("_partitions", "_producers")

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(timeline)
        self._partitions: dict[int, dict[TopicPartition, None]] = {}  # by producer id
        self._producers: dict[TopicPartition, dict[int, None]] = {}

    # ---- read

    def is_pending(self, partition: TopicPartition) -> bool:
        """Whether a transaction has an offset of the partition, or one whose end is not stored."""
        return partition in self._producers

    def has_pending(self, producer_id: int) -> bool:
        return producer_id in self._partitions

    def producers_of(self, partition: TopicPartition) -> list[int]:
        """Return the producers whose transactions have, or had, an offset of the partition."""
        return list(self._producers.get(partition, ()))

    def values_of(self, partition: TopicPartition) -> Iterator[V]:
        """The offsets of the partition in all transactions."""
        for producer_id in self._producers.get(partition, ()):
            value = self.get(PendingKey(producer_id, partition))
            if value is not None:
                yield value

    def partitions_of(self, producer_id: int) -> list[TopicPartition]:
        """The partitions of which a producer's transaction has, or had, an offset, in order."""
        return list(self._partitions.get(producer_id, ()))

    def partitions(self) -> Iterable[TopicPartition]:
        return (key.partition for key in self)

    # ---- change

    def __setitem__(self, key: PendingKey, value: V) -> None:
        super().__setitem__(key, value)
        self._partitions.setdefault(key.producer_id, {})[key.partition] = None
        self._producers.setdefault(key.partition, {})[key.producer_id] = None

    def __delitem__(self, key: PendingKey) -> None:
        super().__delitem__(key)
        self._leave_out(key)

    def forget_oldest(self, key: PendingKey) -> None:
        super().forget_oldest(key)
        self._leave_out(key)

    def undo_newest(self, key: PendingKey, write: int) -> None:
        super().undo_newest(key, write)
        self._leave_out(key)

    def _leave_out(self, key: PendingKey) -> None:
        """Take an entry that is gone for good out of the indexes."""
        if key in self or not self.is_stored(key):
            return
        producer_id, partition = key
        _remove(self._partitions, producer_id, partition)
        _remove(self._producers, partition, producer_id)


def _remove(index: dict[Any, dict[Any, None]], key: Any, value: Any) -> None:
    values = index[key]
    del values[value]
    if not values:
        del index[key]
