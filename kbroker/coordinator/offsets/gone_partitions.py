"""Partitions that no longer exist, until all groups have forgotten their offsets of them.

Law: what was committed before a partition was deleted belongs to the topic that is gone, and what
comes later to another topic of the same name. The place in the log tells them apart, so a deletion
notes where the log ends and looks at no offset. An offset that a later one of its partition follows
is not forgotten: its tombstone would remove the later one too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kbroker.coordinator.group.offsets import GroupOffsets
from kbroker.coordinator.group.store import GroupShard
from kbroker.model import TopicPartition

Ends = Mapping[GroupShard, int]
"""Where the log of each shard ended (exclusive), writes that were on their way there included."""


class GonePartitions:
    """Owned by the event loop."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, Ends] = {}

    def __bool__(self) -> bool:
        """True while offsets of any may be left."""
        return bool(self._ends)

    def add(self, partitions: Iterable[TopicPartition], ends: Ends) -> None:
        self._ends.update(dict.fromkeys(partitions, ends))

    def known(self) -> dict[TopicPartition, Ends]:
        """All that are known now, to be forgotten when every group was gone through."""
        return dict(self._ends)

    def forget(self, known: Mapping[TopicPartition, Ends]) -> None:
        """No offset of these is left, unless they were deleted again since they were `known`."""
        for partition, ends in known.items():
            if self._ends.get(partition) is ends:
                del self._ends[partition]

    def of(self, home: GroupShard, offsets: GroupOffsets) -> Iterator[TopicPartition]:
        """Yield the partitions of which a group, kept by `home`, has offsets to be forgotten."""
        found: Iterable[TopicPartition] = self._ends
        if len(self._ends) > len(offsets.committed) + len(offsets.pending):
            found = offsets.partitions()
        return self.still(home, offsets, list(found))

    def still(
        self, home: GroupShard, offsets: GroupOffsets, partitions: Iterable[TopicPartition]
    ) -> Iterator[TopicPartition]:
        """Return which of these partitions have offsets to be forgotten still."""
        for partition in partitions:
            ends = self._ends.get(partition)
            end_offset = None if ends is None else ends.get(home)
            if end_offset is not None and offsets.is_before(end_offset, partition):
                yield partition
