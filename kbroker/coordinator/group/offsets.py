"""The offsets a group has committed, those on their way to the log, and when they expire.

Law: an offset is visible once its record is in the log. Until then it is pending; with
`require_stable` (KIP-447) readers are told to wait for pending ones, transactional ones included.
Which of two commits wins is decided by their place in the log. Expiry follows KIP-211: the clock
runs from the moment the group became empty, or from the commit where there is no such moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition

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
    log_offset: int = -1  # offset of its batch in __consumer_offsets; -1 = not written yet


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    """What OffsetFetch answers for one partition."""

    offset: int
    leader_epoch: int
    metadata: str
    error: ErrorCode


NOTHING_COMMITTED = FetchedOffset(NO_OFFSET, NO_LEADER_EPOCH, "", ErrorCode.NONE)
UNSTABLE = FetchedOffset(NO_OFFSET, NO_LEADER_EPOCH, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)

Offsets = dict[TopicPartition, CommittedOffset]


class GroupOffsets:
    """All offsets of one group; owned by the group."""

    __slots__ = ("committed", "pending", "pending_transactional")

    def __init__(self) -> None:
        self.committed: Offsets = {}
        self.pending: Offsets = {}  # the newest that is on its way, per partition
        self.pending_transactional: dict[int, Offsets] = {}  # by producer id, until its marker

    def __bool__(self) -> bool:
        """True when something is committed or on its way."""
        return bool(self.committed or self.pending or self.pending_transactional)

    # ---- commit

    def prepare(self, partition: TopicPartition, value: CommittedOffset) -> None:
        """A commit is on its way to the log."""
        self.pending[partition] = value

    def complete(self, partition: TopicPartition, value: CommittedOffset, log_offset: int) -> None:
        """The commit is in the log at `log_offset`."""
        value.log_offset = log_offset
        if self.pending.get(partition) is value:
            del self.pending[partition]
        self._keep_newer(partition, value)

    def fail(self, partition: TopicPartition, value: CommittedOffset) -> None:
        """The commit did not reach the log."""
        if self.pending.get(partition) is value:
            del self.pending[partition]

    # ---- replay

    def replay(
        self, partition: TopicPartition, value: CommittedOffset | None, producer_id: int | None
    ) -> None:
        """A record of this group's offsets was read.

        None is a tombstone, a producer id makes it part of a transaction.
        """
        if producer_id is not None:
            within = self.pending_transactional.setdefault(producer_id, {})
            if value is None:
                within.pop(partition, None)
            else:
                within[partition] = value
        elif value is None:
            self.committed.pop(partition, None)
        else:
            self.committed[partition] = value

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """A marker was read: the producer's pending offsets count, or are dropped."""
        within = self.pending_transactional.pop(producer_id, None)
        if within is not None and is_commit:
            for partition, value in within.items():
                self._keep_newer(partition, value)

    def _keep_newer(self, partition: TopicPartition, value: CommittedOffset) -> None:
        current = self.committed.get(partition)
        if current is None or current.log_offset <= value.log_offset:
            self.committed[partition] = value

    # ---- read

    def fetch(self, partition: TopicPartition, require_stable: bool) -> FetchedOffset:
        """The committed offset of a partition; offset -1 when there is none."""
        if require_stable and self._is_unstable(partition):
            return UNSTABLE
        value = self.committed.get(partition)
        if value is None:
            return NOTHING_COMMITTED
        return FetchedOffset(value.offset, value.leader_epoch, value.metadata, ErrorCode.NONE)

    def _is_unstable(self, partition: TopicPartition) -> bool:
        return partition in self.pending or any(
            partition in within for within in self.pending_transactional.values()
        )

    # ---- remove

    def partitions(self) -> set[TopicPartition]:
        """Partitions with an offset that is committed or on its way."""
        return set(self.committed).union(self.pending, *self.pending_transactional.values())

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forget these partitions; those that have, or are about to have, a record come back."""
        removed = []
        for partition in partitions:
            for within in self.pending_transactional.values():
                within.pop(partition, None)
            pending = self.pending.pop(partition, None)
            if self.committed.pop(partition, pending) is not None:
                removed.append(partition)
        return removed

    def recorded(self) -> list[TopicPartition]:
        """What has, or is about to have, a record."""
        return list(self.committed | self.pending)

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        since_ms: Callable[[CommittedOffset], int],
        kept_topics: frozenset[str] = frozenset(),
    ) -> list[TopicPartition]:
        """Partitions whose offset has outlived its retention, counted from `since_ms(offset)`
        (wall clock).
        """
        return [
            partition
            for partition, value in self.committed.items()
            if partition.topic not in kept_topics
            and partition not in self.pending
            and (
                now_ms - since_ms(value) >= retention_ms
                if value.expire_timestamp_ms is None
                else now_ms >= value.expire_timestamp_ms
            )
        ]
