"""Syncs what was acknowledged because several replicas held it, before only one replica is left.

An acks=all answer does not wait for the disk while two replicas are in sync: both do not lose their
memory at once. When the ISR shrinks to the leader alone, what was acknowledged would be in a single
memory, and a power failure would lose it. So a leader asks for such an ISR after a sync; if the
controller decides on it alone, the sync follows at once.

Law: owned by the event loop. Nothing is synced if answers never wait for the disk
(`kbroker.flush=never`), nor for a partition with one replica, whose every answer waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kbroker.errors import ErrorCode
from kbroker.log.partition.log import Log
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.partitions.produce_result import PartitionProduceResult
from kbroker.replication.waiting.delayed_produce import DelayedProduce
from kbroker.replication.waiting.purgatories import Purgatories
from kbroker.replication.writes.shared_flush import SAFE_REPLICAS, SharedFlush

# A disk that takes longer does not keep the ISR from being looked at again.
FLUSH_TIMEOUT_MS = 30_000


class _Wait(NamedTuple):
    result: PartitionProduceResult
    partition: Partition
    log: Log
    cuts: int
    leader_epoch: int
    end_offset: int

    @property
    def is_over(self) -> bool:
        """Whether the leadership has ended, or other records may have the offsets."""
        partition = self.partition
        return (
            not partition.is_leader
            or partition.leader_epoch != self.leader_epoch
            or not self.log.is_continued_in(partition.log, self.cuts)
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LastReplica:
    """Syncs partitions of one broker whose other replicas fall out of sync."""

    hosted: HostedPartitions
    waiting: Purgatories
    shared_flush: SharedFlush

    async def is_flushed(self, partition: Partition) -> bool:
        """Sync what is committed; False if the disk fails or is slow, or leadership ends."""
        log = partition.log
        wait = _Wait(
            result=PartitionProduceResult(partition.topic_partition),
            partition=partition,
            log=log,
            cuts=log.offsets.cuts,
            leader_epoch=partition.leader_epoch,
            end_offset=log.high_watermark,
        )
        if not self._is_settled(wait):
            future = self.waiting.create_future()
            operation = DelayedProduce([wait.result], [wait], self._is_settled, future)
            keys = [partition.topic_partition]
            await self.waiting.produces.hold(operation, keys, FLUSH_TIMEOUT_MS, future)
        return wait.result.error_code is ErrorCode.NONE

    def on_leadership_change(
        self, became_leader: Iterable[Partition], _became_follower: Iterable[Partition]
    ) -> None:
        """Begin to sync what only this broker has now: the whole log, as it may not know yet how
        much of it the former leader had committed.
        """
        for partition in became_leader:
            state = partition.state
            end_offset = partition.log_end_offset
            if (
                len(state.isr) < SAFE_REPLICAS <= len(state.replicas)
                and partition.log.offsets.recovery_point < end_offset
            ):
                self.shared_flush.flush(partition, end_offset)

    def _is_settled(self, wait: _Wait) -> bool:
        result, log = wait.result, wait.partition.log
        if wait.is_over or self.hosted.find(result.topic_partition) is not wait.partition:
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return True
        result.error_code = ErrorCode.NONE
        if log.offsets.recovery_point < wait.end_offset:
            self.shared_flush.flush(wait.partition, wait.end_offset)
        return log.offsets.recovery_point >= wait.end_offset
