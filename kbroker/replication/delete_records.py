"""Deletes the records before an offset: the log of the leader starts there, its followers do the
same when they fetch (KIP-107).

Law: owned by the event loop. What was answered survives a kill: the new starts are on the disk
before anybody sees them, and where they cannot be written the answer is KAFKA_STORAGE_ERROR and the
records stay. (Apache Kafka writes them down once a minute, and a broker that is killed before that
shows the records again.) Files go with the next look at retention.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from kbroker.clock import Clock, Timer
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import INTERNAL_TOPICS, TopicPartition
from kbroker.replication.delayed_delete_records import (
    INVALID_LOW_WATERMARK,
    DelayedDeleteRecords,
    DeleteRecordsResult,
)
from kbroker.replication.hosted_partitions import HostedPartitions
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.partition import Partition
from kbroker.replication.purgatory import DelayedOperationPurgatory

HIGH_WATERMARK = -1  # "all that is committed", as the offset of a request

# Writes log starts down and calls back with the partitions for which that failed.
WriteLogStarts = Callable[
    [Mapping[TopicPartition, int], Callable[[frozenset[TopicPartition]], None]], None
]


class RecordDeletions:
    """Carries out DeleteRecords requests on the partitions of one broker."""

    def __init__(
        self,
        hosted: HostedPartitions,
        metadata: MetadataCache,
        write_log_starts: WriteLogStarts,
        purgatory: DelayedOperationPurgatory[DelayedDeleteRecords],
    ) -> None:
        self._hosted = hosted
        self._metadata = metadata
        self._write_log_starts = write_log_starts
        self._purgatory = purgatory
        # (partition): a follower fetched, or roles changed
        self.wake = purgatory.check_and_complete
        self.shutdown = purgatory.shutdown

    @property
    def waiting(self) -> int:
        """How many requests wait for replicas."""
        return len(self._purgatory)

    async def delete(
        self, offsets: Mapping[TopicPartition, int], timeout_ms: int
    ) -> list[DeleteRecordsResult]:
        """Delete what lies before each offset (-1: before the high watermark).

        It waits until the new starts are written down, and up to `timeout_ms` for the replicas.
        """
        results = [self._check(tp, offset) for tp, offset in offsets.items()]
        accepted = [result for result in results if result.error_code is ErrorCode.NONE]
        if accepted:
            await self._delete_locally(accepted)
            accepted = [result for result in accepted if result.error_code is ErrorCode.NONE]
        pending = [result for result in accepted if not self._is_settled(result)]
        if not pending:
            return results
        future: asyncio.Future[list[DeleteRecordsResult]]
        future = asyncio.get_running_loop().create_future()
        operation = DelayedDeleteRecords(results, pending, self._is_settled, future)
        self._purgatory.watch(operation, [r.topic_partition for r in pending], timeout_ms)
        future.add_done_callback(lambda _done: self._purgatory.drop(operation))
        return await future

    def _check(self, topic_partition: TopicPartition, offset: int) -> DeleteRecordsResult:
        try:
            required_offset = self._required_offset(topic_partition, offset)
        except KafkaError as error:
            return DeleteRecordsResult(topic_partition, error.code)
        return DeleteRecordsResult(topic_partition, required_offset=required_offset)

    def _required_offset(self, topic_partition: TopicPartition, offset: int) -> int:
        """The offset that all replicas have to start at, at least."""
        if topic_partition.topic in INTERNAL_TOPICS:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Cannot delete records of internal topic {topic_partition.topic}",
            )
        partition = self._hosted.get(topic_partition)
        log = partition.log
        if not partition.is_leader:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This broker does not lead {topic_partition}"
            )
        if log.config.is_compacted and not log.config.is_deleted:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Records of partition {topic_partition} can not be deleted due to the configured "
                "policy (cleanup.policy=compact)",
            )
        required_offset = log.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= required_offset <= log.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"The offset {offset} for partition {topic_partition} is not valid",
            )
        return required_offset

    def _is_settled(self, result: DeleteRecordsResult) -> bool:
        """Bring a result up to date; False while replicas still have older records."""
        try:
            partition = self._hosted.get(result.topic_partition)
        except KafkaError as error:
            result.error_code = error.code
            result.low_watermark = INVALID_LOW_WATERMARK
            return True
        if not partition.is_leader:
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            result.low_watermark = INVALID_LOW_WATERMARK
            return True
        result.low_watermark = self._low_watermark(partition)
        return result.low_watermark >= result.required_offset

    def _low_watermark(self, partition: Partition) -> int:
        """The smallest log start of this replica and of those on other live brokers."""
        starts = [
            follower.log_start_offset
            for broker_id, follower in partition.state.followers.items()
            if self._metadata.broker(broker_id) is not None
        ]
        return min([partition.log_start_offset, *starts])

    async def _delete_locally(self, results: list[DeleteRecordsResult]) -> None:
        """Write the new starts down, then move them.

        Written also where a start is there already: what moved it may not have been written yet.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def written(refused: frozenset[TopicPartition]) -> None:
            for result in results:
                if result.topic_partition in refused:
                    result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                else:
                    self._move_log_start(result)
            if not future.done():
                future.set_result(None)

        wanted = {result.topic_partition: result.required_offset for result in results}
        self._write_log_starts(wanted, written)
        await future

    def _move_log_start(self, result: DeleteRecordsResult) -> None:
        try:
            log = self._hosted.get(result.topic_partition).log
            log.maybe_increment_log_start_offset(result.required_offset)
        except KafkaError as error:
            result.error_code = error.code


def record_deletions(
    hosted: HostedPartitions,
    metadata: MetadataCache,
    write_log_starts: WriteLogStarts,
    clock: Clock,
    timer: Timer,
    *,
    purge_interval: int,
) -> RecordDeletions:
    """With a purgatory of its own."""
    purgatory: DelayedOperationPurgatory[DelayedDeleteRecords] = DelayedOperationPurgatory(
        clock, timer, purge_interval=purge_interval
    )
    return RecordDeletions(hosted, metadata, write_log_starts, purgatory)
