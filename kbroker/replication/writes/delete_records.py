"""Deletes the records before an offset: the leader's log starts there, and its followers do the
same when they fetch (KIP-107).

Law: owned by the event loop. An acknowledged deletion survives a kill: the new starts are on the
disk before anybody sees them. If they cannot be written, the answer is KAFKA_STORAGE_ERROR and the
records stay. (Apache Kafka writes them once a minute; a broker killed before that shows the records
again.) The files go with the next check of retention.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError
from kbroker.memory_room import Owner, while_there
from kbroker.model import INTERNAL_TOPICS, TopicPartition
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.waiting.delayed_produce import DelayedProduce
from kbroker.replication.waiting.purgatories import Purgatories

INVALID_LOW_WATERMARK = -1
HIGH_WATERMARK = -1  # "all that is committed", as the offset of a request

# Writes log starts to the disk, and calls back with the partitions for which that failed.
WriteLogStarts = Callable[
    [Mapping[TopicPartition, int], Callable[[frozenset[TopicPartition]], None]], None
]


@dataclass(slots=True, eq=False, repr=False)
class DeleteRecordsResult:
    """The outcome in one partition, and the smallest log start of its live replicas."""

    topic_partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    low_watermark: int = INVALID_LOW_WATERMARK


class _Deletion(NamedTuple):
    """A deletion that was not refused, and the offset that the low watermark has to reach."""

    result: DeleteRecordsResult
    required_offset: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordDeletions:
    """Carries out DeleteRecords requests on the partitions of one broker."""

    hosted: HostedPartitions
    write_log_starts: WriteLogStarts
    waiting: Purgatories

    async def delete(
        self,
        offsets: Mapping[TopicPartition, int],
        timeout_ms: int,
        client: Owner | None = None,
    ) -> list[DeleteRecordsResult]:
        """Delete what is before each offset (-1: before the high watermark).

        Waits until the new starts are on the disk, and up to `timeout_ms` for the replicas. Raises
        ProtocolError if `client` goes while it waits for these.
        """
        results = []
        accepted = []
        for topic_partition, offset in offsets.items():
            result = DeleteRecordsResult(topic_partition)
            results.append(result)
            try:
                required_offset = self._required_offset(topic_partition, offset)
            except KafkaError as error:
                result.error_code = error.code
            else:
                accepted.append(_Deletion(result, required_offset))
        if accepted:
            await self._delete_locally(accepted)
        pending = [
            deletion
            for deletion in accepted
            if deletion.result.error_code is ErrorCode.NONE and not self._is_settled(deletion)
        ]
        if not pending:
            return results
        future: asyncio.Future[list[DeleteRecordsResult]] = self.waiting.create_future()
        operation = DelayedProduce(results, pending, self._is_settled, future)
        keys = [deletion.result.topic_partition for deletion in pending]
        self.waiting.deletions.hold(operation, keys, timeout_ms, future)
        return await while_there(client, future)

    def _required_offset(self, topic_partition: TopicPartition, offset: int) -> int:
        """The offset that every replica has to start at or after. Raises KafkaError."""
        if topic_partition.topic in INTERNAL_TOPICS:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Cannot delete records of internal topic {topic_partition.topic}",
            )
        log = self._led(topic_partition).log
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

    def _is_settled(self, deletion: _Deletion) -> bool:
        """Bring the result up to date; False while replicas still have older records."""
        result = deletion.result
        try:
            partition = self._led(result.topic_partition)
        except KafkaError as error:
            result.error_code = error.code
            result.low_watermark = INVALID_LOW_WATERMARK
            return True
        result.low_watermark = self._low_watermark(partition)
        return result.low_watermark >= deletion.required_offset

    def _led(self, topic_partition: TopicPartition) -> Partition:
        """The partition, if it is led here. Raises KafkaError."""
        partition = self.hosted.get(topic_partition)
        partition.check_leads()
        return partition

    def _low_watermark(self, partition: Partition) -> int:
        """The smallest log start of the replicas on live brokers."""
        starts = [
            follower.log_start_offset
            for broker_id, follower in partition.state.followers.items()
            if self.hosted.metadata.broker(broker_id) is not None
        ]
        return min([partition.log_start_offset, *starts])

    async def _delete_locally(self, deletions: list[_Deletion]) -> None:
        """Write the new starts, even those reached already, then move them."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def written(refused: frozenset[TopicPartition]) -> None:
            for deletion in deletions:
                if deletion.result.topic_partition in refused:
                    deletion.result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                else:
                    self._move_log_start(deletion)
            if not future.done():
                future.set_result(None)

        wanted = {one.result.topic_partition: one.required_offset for one in deletions}
        self.write_log_starts(wanted, written)
        await future

    def _move_log_start(self, deletion: _Deletion) -> None:
        result = deletion.result
        try:
            log = self.hosted.get(result.topic_partition).log
            if log.maybe_increment_log_start_offset(deletion.required_offset):
                self.waiting.fetches.notify(result.topic_partition)  # this ends no fetch
        except KafkaError as error:
            result.error_code = error.code
