"""Rebuilds groups from the records of one partition of `__consumer_offsets`.

Pure. Law: the newest record of a key counts and a tombstone removes it, because compaction keeps no
others. Offsets of a transaction count once its commit marker is read (KIP-98). Groups that only
ever kept offsets have no record of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.offsets import CommittedOffset, GroupOffsets
from kbroker.coordinator.group.records import (
    PARTITION_BYTES,
    GroupMetadataKey,
    OffsetCommitKey,
    read_group_metadata,
    read_key,
    read_offset_commit_value,
    read_offset_key_start,
    read_partition,
)
from kbroker.coordinator.group.unserved_records import is_of_consumer_group, not_taken
from kbroker.coordinator.runtime.timeline import Timeline
from kbroker.model import TopicPartition

if TYPE_CHECKING:
    from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
    from kbroker.coordinator.consumer_group.replay import ConsumerGroupReplay

_STARTS_REMEMBERED = 1 << 14


class GroupReplay:
    """Takes records in the order of the log; `groups` gives what they amount to."""

    def __init__(
        self,
        timeline: Timeline | None = None,
        consumer_groups: Callable[[Timeline], ConsumerGroupReplay] | None = None,
    ) -> None:
        """`timeline` of the shard that keeps the groups; `consumer_groups` is asked for what reads
        their records with the first of these, None if none are served.
        """
        self._reader_of_consumer_groups = consumer_groups
        self._of_consumer_groups: ConsumerGroupReplay | None = None  # once there was a record
        self._timeline = Timeline() if timeline is None else timeline
        self._groups: dict[str, Group] = {}
        self._offsets: dict[str, GroupOffsets] = {}
        self.in_transaction: dict[int, set[str]] = {}  # producer id -> groups it has offsets for
        # A group's partitions differ in the end of their keys alone.
        self._read_start = lru_cache(_STARTS_REMEMBERED)(read_offset_key_start)
        # Many groups read the same partitions.
        self._partitions: dict[TopicPartition, TopicPartition] = {}

    def record(
        self, key: bytes | None, value: bytes | None, batch_offset: int, producer_id: int | None
    ) -> None:
        """Take in one record of the batch at `batch_offset`.

        `producer_id` only if the batch is transactional. A record that is not understood changes
        nothing and raises ProtocolError.
        """
        key = key or b""
        named = self._read_start(key[:-PARTITION_BYTES])
        if named is not None:
            partition = read_partition(key)
        else:  # of another kind, or written by somebody else
            about = read_key(key)
            if not isinstance(about, OffsetCommitKey):
                self._take_group(about, key, value)
                return
            named, partition = about, about.partition
        committed = None if value is None else read_offset_commit_value(value, batch_offset)
        self._take_offset(
            named.group, TopicPartition(named.topic, partition), committed, producer_id
        )

    def _take_offset(
        self,
        group_id: str,
        partition: TopicPartition,
        committed: CommittedOffset | None,
        producer_id: int | None,
    ) -> None:
        offsets = self._offsets.get(group_id)
        if offsets is None:
            offsets = self._offsets[group_id] = GroupOffsets(self._timeline)
        kept = self._partitions.setdefault(partition, partition)
        offsets.replay(kept, committed, producer_id)
        if producer_id is not None:
            self.in_transaction.setdefault(producer_id, set()).add(group_id)

    def _take_group(self, about: GroupMetadataKey | None, key: bytes, value: bytes | None) -> None:
        if about is None:
            self._take_other_kind(key, value)
        elif value is None:
            self._groups.pop(about.group, None)
        else:
            self._groups[about.group] = read_group_metadata(about.group, value)
            if self._of_consumer_groups is not None:
                self._of_consumer_groups.groups.pop(about.group, None)

    def _take_other_kind(self, key: bytes, value: bytes | None) -> None:
        if self._reader_of_consumer_groups is None or not is_of_consumer_group(key):
            raise not_taken(key)
        if self._of_consumer_groups is None:
            self._of_consumer_groups = self._reader_of_consumer_groups(self._timeline)
        group_id = self._of_consumer_groups.record(key, value)
        if value is not None:
            self._groups.pop(group_id, None)

    def open_producers(self) -> Iterable[int]:
        """Producers with offsets in a transaction that has not ended."""
        return self.in_transaction

    def marker(self, producer_id: int, is_commit: bool) -> None:
        """A transaction of this producer ended."""
        for group_id in self.in_transaction.pop(producer_id, ()):
            self._offsets[group_id].end_transaction(producer_id, is_commit)

    def consumer_groups(self) -> Iterator[tuple[ConsumerGroup, GroupOffsets]]:
        """All groups of the consumer protocol, as `groups`, before it."""
        read, self._of_consumer_groups = self._of_consumer_groups, None
        for group_id, group in read.groups.items() if read is not None else ():
            offsets = self._offsets.pop(group_id, None)
            group.find_owners()
            yield group, GroupOffsets(self._timeline) if offsets is None else offsets

    def groups(self) -> Iterator[Group]:
        """All groups, with their offsets; nothing of what was read is kept here after them."""
        for group_id, group in self._groups.items():
            offsets = self._offsets.pop(group_id, None)
            group.offsets = GroupOffsets(self._timeline) if offsets is None else offsets
            yield group
        for group_id, offsets in self._offsets.items():
            if offsets:
                yield Group(group_id, offsets=offsets)
        self._groups, self._offsets, self._partitions = {}, {}, {}
        self._read_start.cache_clear()
