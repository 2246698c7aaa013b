"""Appends of Produce requests and of coordinators: at once or later, and which answers wait.

Law: what can be appended now is, and answered with a plain value. A batch that takes long goes
through `long_appends`; only what has to wait for that, for followers or for the disk costs a
future. A refusal is the error code of one partition and never spoils the others.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from kbroker.clock import Clock
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append_preparation import Preparation, Prepared
from kbroker.log.append_rules import AT_ONCE, TakesLongError, WorkLimit, share_of_at_once
from kbroker.log.log_append_info import (
    AppendOrigin,
    InvalidRecordsError,
    InvalidRecordSetError,
    LogAppendInfo,
)
from kbroker.model import INTERNAL_TOPICS, TopicPartition
from kbroker.replication.delayed_fetch import DelayedFetch
from kbroker.replication.delayed_produce import DelayedProduce
from kbroker.replication.group_commit import GroupCommit
from kbroker.replication.hosted_partitions import HostedPartitions
from kbroker.replication.long_appends import LongAppends, LongEntry
from kbroker.replication.long_work import LongWork
from kbroker.replication.partition import Partition
from kbroker.replication.produce_result import REQUIRED_ACKS_ALL, PartitionProduceResult
from kbroker.replication.purgatory import DelayedOperationPurgatory

Results = list[PartitionProduceResult]
Entries = Sequence[tuple[TopicPartition, memoryview | bytearray]]

# Refused before the log's own checks were reached: such an answer holds no log start offset.
_WITHOUT_LOG_START_OFFSET = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class Appends:
    """Appends to the partitions that a broker holds."""

    def __init__(
        self,
        hosted: HostedPartitions,
        clock: Clock,
        fetches: DelayedOperationPurgatory[DelayedFetch],
        produces: DelayedOperationPurgatory[DelayedProduce],
        work: LongWork,
        create_future: Callable[[], asyncio.Future[Results]],
    ) -> None:
        self.hosted = hosted
        self.clock = clock
        self.group_commit: GroupCommit | None = None
        self._fetches = fetches
        self._produces = produces
        self._long = LongAppends(work)
        self._waiting = self._long.waiting
        self._create_future = create_future

    def append_records(
        self,
        entries: Entries,
        required_acks: int,
        timeout_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> Results | Awaitable[Results]:
        """Append to each partition; a plain list where nothing has to be waited for.

        Results are in the order of `entries`, which name each partition once. Buffers must be
        writable, and stay as they are until the answer: offsets and leader epoch are written into
        them.
        """
        if required_acks not in (0, 1, REQUIRED_ACKS_ALL):
            return [
                PartitionProduceResult(topic_partition, ErrorCode.INVALID_REQUIRED_ACKS)
                for topic_partition, _ in entries
            ]
        request = _Request(self, required_acks, timeout_ms, origin)
        limit = AT_ONCE if len(entries) == 1 else share_of_at_once(len(entries))
        later = []
        for topic_partition, records in entries:
            result = PartitionProduceResult(topic_partition)
            request.results.append(result)
            try:
                self._append(request, result, records, limit)
            except KafkaError as error:
                request.refuse(result, error)
            except TakesLongError:
                later.append(LongEntry(result, records))
        for result in request.results:
            if result.base_offset >= 0:
                # Producers wait for followers or the disk: an append of others ends no such wait.
                self._fetches.check_and_complete(result.topic_partition)
        if later:
            return self._answer_later(request, self._long.add(request, later))
        return self._answer(request)

    def shutdown(self) -> None:
        """Append nothing more."""
        self._long.shutdown()

    def wake_fetches(self, topic_partition: TopicPartition) -> None:
        """Records came to this partition."""
        self._fetches.check_and_complete(topic_partition)

    def _append(
        self,
        request: _Request,
        result: PartitionProduceResult,
        records: memoryview | bytearray,
        limit: WorkLimit,
    ) -> None:
        topic_partition = result.topic_partition
        partition = self.hosted.find(topic_partition) or self.hosted.get(topic_partition)
        if request.origin is not AppendOrigin.COORDINATOR:
            if topic_partition.topic in INTERNAL_TOPICS:
                raise _internal_topic(topic_partition)
            if topic_partition in self._waiting:
                raise TakesLongError
        info = partition.append_records_to_leader(
            records, request.required_acks, request.now_ms, request.origin, limit
        )
        request.note(result, partition, info)

    async def _answer_later(self, request: _Request, done: asyncio.Future[None]) -> Results:
        await done
        answer = self._answer(request)
        return answer if isinstance(answer, list) else await answer

    def _answer(self, request: _Request) -> Results | Awaitable[Results]:
        results, pending = request.results, request.pending
        if not pending:
            return results
        waits_for_all = request.required_acks == REQUIRED_ACKS_ALL
        check = self._check_committed if waits_for_all else self._check_flushed
        future = self._create_future()
        operation = DelayedProduce(results, pending, check, future)
        keys = [result.topic_partition for result in pending]
        self._produces.watch(operation, keys, request.timeout_ms)
        future.add_done_callback(lambda _done: self._produces.drop(operation))
        return future

    def _check_committed(
        self, topic_partition: TopicPartition, end_offset: int
    ) -> ErrorCode | None:
        try:
            partition = self.hosted.get(topic_partition)
        except KafkaError as error:
            return error.code
        outcome = partition.check_committed(end_offset)
        if outcome is ErrorCode.NONE and self.must_flush(partition, end_offset, REQUIRED_ACKS_ALL):
            return None
        return outcome

    def _check_flushed(self, topic_partition: TopicPartition, end_offset: int) -> ErrorCode | None:
        try:
            partition = self.hosted.get(topic_partition)
        except KafkaError as error:
            return error.code
        return None if self.must_flush(partition, end_offset, 1) else ErrorCode.NONE

    def must_flush(self, partition: Partition, end_offset: int, required_acks: int) -> bool:
        """True when an answer has to wait for the disk; the flush is under way then."""
        commit = self.group_commit
        if commit is None or not commit.must_flush(partition, end_offset, required_acks):
            return False
        commit.flush(partition, end_offset)
        return commit.must_flush(partition, end_offset, required_acks)


class _Request:
    """One request's appends: the results as they come, and those that wait for something."""

    __slots__ = (
        "_appends",
        "may_flush",
        "now_ms",
        "origin",
        "pending",
        "required_acks",
        "results",
        "timeout_ms",
    )

    def __init__(
        self, appends: Appends, required_acks: int, timeout_ms: int, origin: AppendOrigin
    ) -> None:
        self.required_acks = required_acks
        self.timeout_ms = timeout_ms
        self.origin = origin
        self.now_ms = appends.clock.now_ms()
        self.results: Results = []
        self.pending: Results = []
        commit = appends.group_commit
        self.may_flush = commit is not None and commit.applies_to(required_acks)
        self._appends = appends

    def note(
        self, result: PartitionProduceResult, partition: Partition, info: LogAppendInfo
    ) -> None:
        """The append was made."""
        result.base_offset = info.first_offset
        result.last_offset = last_offset = info.last_offset
        result.log_append_time_ms = info.log_append_time
        result.log_start_offset = info.log_start_offset
        log = partition.log
        required_acks = self.required_acks
        must_flush = (
            self.may_flush or last_offset + 1 >= log.flush_due_offset
        ) and self._appends.must_flush(partition, last_offset + 1, required_acks)
        if required_acks and (
            must_flush or (required_acks == REQUIRED_ACKS_ALL and log.high_watermark <= last_offset)
        ):
            self.pending.append(result)

    def refuse(self, result: PartitionProduceResult, error: KafkaError) -> None:
        """The append was not made."""
        topic_partition = result.topic_partition
        result.error_code = error.code
        if isinstance(error, InvalidRecordsError):
            result.error_message = error.message
            result.record_errors = error.record_errors
        partition = self._appends.hosted.find(topic_partition)
        knows_start = error.code not in _WITHOUT_LOG_START_OFFSET and not isinstance(
            error, InvalidRecordSetError
        )
        if partition is not None and knows_start and topic_partition.topic not in INTERNAL_TOPICS:
            result.log_start_offset = partition.log_start_offset

    def prepare(self, entry: LongEntry) -> Preparation | None:
        """See `LongRequest`."""
        try:
            partition = self._appends.hosted.get(entry.result.topic_partition)
            return partition.prepare_append(
                entry.records, self.required_acks, self._appends.clock.now_ms(), self.origin
            )
        except KafkaError as error:
            self.refuse(entry.result, error)
            return None

    def append(self, entry: LongEntry, prepared: Prepared | KafkaError) -> bool:
        """See `LongRequest`."""
        result = entry.result
        try:
            if isinstance(prepared, KafkaError):
                raise prepared
            partition = self._appends.hosted.get(result.topic_partition)
            info = partition.append_prepared(
                prepared, self.required_acks, self._appends.clock.now_ms()
            )
            if info is None:
                return False
        except KafkaError as error:
            self.refuse(result, error)
            return True
        self.note(result, partition, info)
        self._appends.wake_fetches(result.topic_partition)
        return True


def _internal_topic(topic_partition: TopicPartition) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Cannot append to internal topic {topic_partition.topic}",
    )
