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
from kbroker.coordinator.group.offsets import GroupOffsets
from kbroker.coordinator.group.records import (
    OffsetCommitKey,
    read_group_metadata,
    read_key,
    read_offset_commit_value,
)
from kbroker.coordinator.group.unserved_records import is_of_consumer_group, not_taken
from kbroker.coordinator.runtime.timeline import Timeline
from kbroker.model import TopicPartition

if TYPE_CHECKING:
    from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
    from kbroker.coordinator.consumer_group.replay import ConsumerGroupReplay

_KEYS_REMEMBERED = 1 << 14


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
        # A log that was not compacted yet names the same keys again and again.
        self._read_key = lru_cache(_KEYS_REMEMBERED)(read_key)

    def record(
        self, key: bytes | None, value: bytes | None, batch_offset: int, producer_id: int | None
    ) -> None:
        """Take in one record of the batch at `batch_offset`.

        `producer_id` only if the batch is transactional. A record that is not understood changes
        nothing and raises ProtocolError.
        """
        about = self._read_key(key or b"")
        if about is None:
            self._take_other_kind(key or b"", value)
        elif isinstance(about, OffsetCommitKey):
            committed = None if value is None else read_offset_commit_value(value, batch_offset)
            offsets = self._offsets.get(about.group)
            if offsets is None:
                offsets = self._offsets[about.group] = GroupOffsets(self._timeline)
            offsets.replay(TopicPartition(about.topic, about.partition), committed, producer_id)
            if producer_id is not None:
                self.in_transaction.setdefault(producer_id, set()).add(about.group)
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
        self._groups, self._offsets = {}, {}
        self._read_key.cache_clear()
