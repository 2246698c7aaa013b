"""The offsets a group has committed, those on their way to the log, and when they expire.

Pure. Law: an offset is visible once its record is stored, because the next coordinator knows only
what is stored. Until then `require_stable` (KIP-447) makes readers wait for it; so it does for
offsets of open transactions, until it is stored how they ended. Which of two commits wins is
decided by their place in the log. What is forgotten is forgotten in transactions too: a later
marker finds nothing of it. Expiry follows KIP-211: the clock runs from the moment the group became
empty, or from the commit if there is no such moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kbroker.coordinator.group.pending_offsets import PendingKey, PendingOffsets
from kbroker.coordinator.runtime.timeline import Timeline, TimelineDict
from kbroker.errors import ErrorCode
from kbroker.model import ZERO_UUID, TopicPartition

NO_OFFSET = -1
NO_LEADER_EPOCH = -1


@dataclass(slots=True, kw_only=True)
class CommittedOffset:
    """A committed offset, as kept and as written."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None  # only from commits with a retention time (v2 to v4)
    topic_id: UUID = ZERO_UUID  # of its topic when it was committed; zero: the log does not say
    log_offset: int = -1  # offset of its batch in __consumer_offsets; -1 = not written yet


class FetchedOffset(NamedTuple):
    """An answer of OffsetFetch for one partition; a tuple, as one request asks for thousands."""

    offset: int
    leader_epoch: int
    metadata: str
    error: ErrorCode


NOTHING_COMMITTED = FetchedOffset(NO_OFFSET, NO_LEADER_EPOCH, "", ErrorCode.NONE)
UNSTABLE = FetchedOffset(NO_OFFSET, NO_LEADER_EPOCH, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)

Offsets = TimelineDict[TopicPartition, CommittedOffset]


class GroupOffsets:
    """All offsets of one group; owned by the group."""

    __slots__ = ("committed", "pending")

    def __init__(self, timeline: Timeline | None = None) -> None:
        """`timeline` of the shard that keeps the group."""
        timeline = Timeline() if timeline is None else timeline
        self.committed: Offsets = TimelineDict(timeline)
        self.pending: PendingOffsets[CommittedOffset] = PendingOffsets(timeline)

    def __bool__(self) -> bool:
        """True when something is committed or pending, or will be again if the log refuses a write
        that is on its way there.
        """
        committed, pending = self.committed, self.pending
        if committed or pending:
            return True
        return committed.may_change_back or pending.may_change_back

    @property
    def are_stored(self) -> bool:
        """False while a change of any of them is on its way."""
        return self.committed.are_stored and self.pending.are_stored

    # ---- replay

    def replay(
        self, partition: TopicPartition, value: CommittedOffset | None, producer_id: int | None
    ) -> None:
        """A record of this group's offsets is in the log: it was read, or written just now.

        None is a tombstone, a producer id makes it part of a transaction.
        """
        if producer_id is not None:
            if value is None:
                self.pending.pop(PendingKey(producer_id, partition), None)
            else:
                self.pending[PendingKey(producer_id, partition)] = value
        elif value is None:
            self.committed.pop(partition, None)
            for each in self.pending.producers_of(partition):
                self.pending.pop(PendingKey(each, partition), None)
        else:
            self.committed[partition] = value

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """A marker is in the log: the producer's pending offsets count, or are dropped."""
        for partition in self.pending.partitions_of(producer_id):
            value = self.pending.pop(PendingKey(producer_id, partition), None)
            if is_commit and value is not None:
                self._keep_newer(partition, value)

    def _keep_newer(self, partition: TopicPartition, value: CommittedOffset) -> None:
        current = self.committed.get(partition)
        if current is None or current.log_offset <= value.log_offset:
            self.committed[partition] = value

    # ---- read

    def fetch(
        self, partition: TopicPartition, require_stable: bool, topic_id: UUID = ZERO_UUID
    ) -> FetchedOffset:
        """The committed offset of a partition; offset -1 when there is none, or when it is that of
        another topic of the same name than the one that is asked for.
        """
        if require_stable and not self._is_stable(partition):
            return UNSTABLE
        value = self.committed.stored(partition)
        if value is None or _are_others(value.topic_id, topic_id):
            return NOTHING_COMMITTED
        return FetchedOffset(value.offset, value.leader_epoch, value.metadata, ErrorCode.NONE)

    def _is_stable(self, partition: TopicPartition) -> bool:
        return self.committed.is_stored(partition) and not self.pending.is_pending(partition)

    # ---- remove

    def partitions(self) -> set[TopicPartition]:
        """Partitions with an offset that is committed, or in a transaction."""
        return {*self.committed, *self.pending.partitions()}

    def has_more_than(self, count: int) -> bool:
        """Whether there are offsets of more partitions than so many."""
        if len(self.committed) > count:
            return True
        return bool(self.pending) and (not count or len(self.partitions()) > count)

    def is_before(self, end_offset: int, partition: TopicPartition) -> bool:
        """Whether a partition has an offset, and none at `end_offset` in the log or later."""
        last = max((value.log_offset for value in self._each_of(partition)), default=end_offset)
        return last < end_offset

    def recorded(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return which of these partitions have a record."""
        return [each for each in partitions if next(self._each_of(each), None) is not None]

    def _each_of(self, partition: TopicPartition) -> Iterator[CommittedOffset]:
        """Yield the offset committed for a partition, and those in transactions."""
        committed = self.committed.get(partition)
        if committed is not None:
            yield committed
        yield from self.pending.values_of(partition)

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        since_ms: Callable[[CommittedOffset], int],
        kept_topics: frozenset[str] = frozenset(),
        among: Iterable[TopicPartition] | None = None,
    ) -> list[TopicPartition]:
        """Partitions, of all or `among` these, whose offset has outlived its retention, counted
        from `since_ms(offset)` (wall clock).
        """
        return [
            partition
            for partition, value in self._committed(among)
            if partition.topic not in kept_topics
            and self._is_stable(partition)
            and (
                now_ms - since_ms(value) >= retention_ms
                if value.expire_timestamp_ms is None
                else now_ms >= value.expire_timestamp_ms
            )
        ]

    def _committed(
        self, among: Iterable[TopicPartition] | None
    ) -> Iterable[tuple[TopicPartition, CommittedOffset]]:
        if among is None:
            return self.committed.items()
        found = ((partition, self.committed.get(partition)) for partition in among)
        return [(partition, value) for partition, value in found if value is not None]


def _are_others(one: UUID, other: UUID) -> bool:
    """Whether these are the ids of two topics; zero may be that of any."""
    return one is not other and ZERO_UUID not in (one, other) and one != other
