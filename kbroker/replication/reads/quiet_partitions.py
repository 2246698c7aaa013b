"""Tells the partitions of a follower's fetch session that may have news from those that are quiet.

A follower of 3,000 partitions fetches all of them with every request, and few have changed. One is
*quiet* if the follower is in sync, has all records, and knows the high watermark and log start:
until something happens to the partition, it is neither read nor waited for, nor is the follower's
progress noted.

Law: owned by the event loop. Whatever wakes a waiting fetch first ends the quiet of a partition.
A follower in sync that fetches nothing new is caught up as of its last fetch, in its quiet
partitions too: that is noted when the quiet ends. Retention moves a log's start and wakes nobody,
so from time to time all are compared with what the follower knows. That costs a microsecond each;
a read costs a hundred times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from kbroker.model import UNKNOWN_BROKER_EPOCH, TopicPartition
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.reads.delayed_fetch import DelayedFetch
from kbroker.replication.reads.fetch_params import FetchPartition
from kbroker.replication.waiting.delayed_operation_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
)

LOOK_AT_ALL_AFTER_MS = 10_000


@dataclass(slots=True, eq=False, repr=False)
class QuietPartitions:
    """The partitions of one session by its own keys; `noisy` are to be read, the first one first.
    `named` adds them.
    """

    hosted: HostedPartitions
    waiting: DelayedOperationPurgatory[DelayedOperation]
    noisy: dict[Hashable, FetchPartition] = field(default_factory=dict)
    _quiet: dict[TopicPartition, tuple[Hashable, FetchPartition]] = field(default_factory=dict)
    _operation: DelayedFetch | None = None  # the session's fetch that waits
    _follower: tuple[int, int] = (-1, UNKNOWN_BROKER_EPOCH)
    _last_fetch_ms: int = 0
    _all_seen_ms: int = 0

    def __len__(self) -> int:
        return len(self._quiet)

    # A request

    def named(self, key: Hashable, asked: FetchPartition) -> None:
        """Read a partition that a request names."""
        if asked.topic_partition in self._quiet:
            self._end(asked.topic_partition)
            self.waiting.stop_listening(asked.topic_partition, self)
        else:
            self.noisy[key] = asked

    def forgotten(self, key: Hashable, asked: FetchPartition) -> None:
        """Forget a partition that the follower no longer fetches."""
        self.named(key, asked)
        del self.noisy[key]

    def fetched(self, follower: tuple[int, int], now_ms: int) -> None:
        """Note that the broker of that id and epoch asks for news of all partitions."""
        if follower != self._follower:
            self.end_all()
            self._all_seen_ms = now_ms
        elif now_ms - self._all_seen_ms >= LOOK_AT_ALL_AFTER_MS:
            self._all_seen_ms = now_ms
            self._end_where(lambda asked: not self._has_all(asked))
        self._follower = follower
        self._last_fetch_ms = now_ms

    def wait(self, operation: DelayedFetch) -> None:
        """Add to a waiting request the partitions whose quiet ends."""
        self._operation = operation

    # Its answer

    def answered(
        self, key: Hashable, asked: FetchPartition, data: FetchResponse.PartitionData
    ) -> None:
        """Note that the follower is sent `data`: the partition may be quiet then. One with records
        goes to the end of the line, so that a busy partition does not starve the others.
        """
        noisy = self.noisy
        if noisy.get(key) is not asked:
            return  # forgotten, or named in another way
        if data.records is not None and len(data.records):
            del noisy[key]
            noisy[key] = asked
        elif not data.error_code and data.diverging_epoch.epoch < 0 and self._has_all(asked):
            del noisy[key]
            self._quiet[asked.topic_partition] = key, asked
            self.waiting.listen_once(asked.topic_partition, self)

    def _has_all(self, asked: FetchPartition) -> bool:
        partition = self.hosted.find(asked.topic_partition)
        if partition is None:
            return False
        state, log = partition.state, partition.log
        broker_id = self._follower[0]
        follower = state.followers.get(broker_id)
        return (
            follower is not None
            and broker_id in state.isr
            and follower.log_end_offset == asked.fetch_offset == log.log_end_offset
            and asked.sent_high_watermark == log.high_watermark
            and asked.sent_log_start_offset == log.log_start_offset
        )

    # Changes

    def changed(self, topic_partition: TopicPartition) -> None:
        """End the quiet of a partition to which something happened."""
        asked = self._end(topic_partition)
        operation = self._operation
        if operation is not None and not operation.is_completed:
            operation.add(asked)
            self.waiting.watch_also(operation, topic_partition)

    def end_all(self) -> None:
        """End the quiet of all partitions."""
        self._end_where(lambda _: True)

    def _end_where(self, is_over: Callable[[FetchPartition], bool]) -> None:
        for topic_partition in [tp for tp, (_, asked) in self._quiet.items() if is_over(asked)]:
            self._end(topic_partition)
            self.waiting.stop_listening(topic_partition, self)

    def _end(self, topic_partition: TopicPartition) -> FetchPartition:
        key, asked = self._quiet.pop(topic_partition)
        self.noisy[key] = asked
        partition = self.hosted.find(topic_partition)
        follower = partition and partition.state.followers.get(self._follower[0])
        if follower:
            follower.had_all(asked.fetch_offset, self._last_fetch_ms)
        return asked
