"""Appends of Produce requests and of coordinators: at once or later, and which answers wait.

Law: whatever can be appended now is, and its result is final, because most appends need not wait. A
batch that takes long goes through `long_appends`; only a wait for that, for followers or for the
disk costs a future. A refusal is the error code of one partition and never spoils the others.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from kbroker.clock import Clock
from kbroker.errors import NO_ERROR, ErrorCode, KafkaError
from kbroker.log.append.append_preparation import Preparation, Prepared
from kbroker.log.append.append_rules import (
    AT_ONCE_COST,
    AT_ONCE_RECORDS,
    TakesLongError,
    WorkLimit,
)
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import (
    AppendOrigin,
    InvalidRecordsError,
    InvalidRecordSetError,
)
from kbroker.model import INTERNAL_TOPICS, TopicPartition, new_tuple
from kbroker.replication.long_work import LongWork
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.partitions.produce_result import (
    REQUIRED_ACKS_ALL,
    AppendOutcome,
    PartitionProduceResult,
)
from kbroker.replication.partitions.topic_counters import TopicCounters
from kbroker.replication.waiting.delayed_produce import DelayedProduce
from kbroker.replication.waiting.purgatories import Purgatories
from kbroker.replication.writes.long_appends import LongAppends, LongEntry
from kbroker.replication.writes.shared_flush import SharedFlush

Results = list[PartitionProduceResult]
Records = memoryview | bytearray
Entries = Collection[tuple[TopicPartition, Records]]

# Read by every append; a look into the class of an enum costs 70 ns.
_COORDINATOR = AppendOrigin.COORDINATOR

# Refusals before the log's own checks: such an answer holds no log start offset, and Kafka counts
# no failed request.
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
        waiting: Purgatories,
        work: LongWork,
    ) -> None:
        self.hosted = hosted
        self.clock = clock
        self.shared_flush: SharedFlush | None = None
        # Producers wait for followers or the disk: few other appends end such a wait.
        self.wake_fetches = waiting.fetches.check_and_complete
        self.wake_produces = waiting.produces.check_and_complete
        self._requests = waiting
        self._long = LongAppends(work)
        self._waiting = self._long.waiting
        self._find = hosted.find
        self._limit = WorkLimit()  # of the request in work

    def append_records(
        self,
        entries: Entries,
        required_acks: int,
        timeout_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendOutcome:
        """Append to each partition; `entries` name each once. Buffers must be writable, and must
        not change until all is appended: offsets and leader epoch are written into them.
        """
        if required_acks not in (0, 1, REQUIRED_ACKS_ALL):
            return AppendOutcome(_invalid_acks(entries))
        now_ms, limit, is_own = self.clock.now_ms(), self._limit, origin is _COORDINATOR
        limit.records, limit.byte_cost = AT_ONCE_RECORDS, AT_ONCE_COST
        results: Results = []
        pending: list[_Pending] = []
        later: list[LongEntry] = []
        flushed_acks = self.shared_flush.waiting_acks if self.shared_flush is not None else ()
        for topic_partition, records in entries:
            try:
                partition = self._find(topic_partition) or self.hosted.get(topic_partition)
                if not is_own and (topic_partition[0] in INTERNAL_TOPICS or self._waiting):
                    self._check_is_free(topic_partition)
                info = partition.append_records_to_leader(
                    records, required_acks, now_ms, origin, limit
                )
            except (KafkaError, TakesLongError) as error:
                results.append(result := PartitionProduceResult(topic_partition))
                if isinstance(error, KafkaError):
                    self.refuse(result, error, records)
                else:
                    later.append(LongEntry(result, records))
                continue
            first_offset, last_offset, _, _, append_time, start_offset, size, _, converted = info
            result = PartitionProduceResult(
                topic_partition, NO_ERROR, first_offset, last_offset, append_time, start_offset
            )
            results.append(result)
            counters, offsets = partition.counters, partition.log.offsets
            counters.produce_requests += 1
            counters.messages_in += last_offset - first_offset + 1
            counters.bytes_in += size
            counters.produce_conversions += converted
            if partition.append_has_committed:
                self.wake_produces(topic_partition)
            if (
                last_offset >= offsets.high_watermark
                or last_offset + 1 >= offsets.flush_due_offset
                or required_acks in flushed_acks
            ) and self.has_to_wait(partition, last_offset, required_acks):
                pending.append(_pending(result, partition))
        self._wake_readers(results)
        if later:
            request = _LongRequest(self, required_acks, origin, pending)
            return self._append_later(request, later, results, timeout_ms)
        if pending:
            settled = self._requests.create_future()
            self._hold(settled, results, pending, required_acks, timeout_ms)
            return AppendOutcome(results, settled)
        return new_tuple(AppendOutcome, (results, None, None))

    def shutdown(self) -> None:
        self._long.shutdown()

    def refuse(self, result: PartitionProduceResult, error: KafkaError, records: Records) -> None:
        """Enter into a result that the append of these records was refused."""
        topic_partition = result.topic_partition
        result.error_code = error.code
        if isinstance(error, InvalidRecordsError):
            result.error_message = error.message
            result.record_errors = error.record_errors
        partition = self.hosted.find(topic_partition)
        if partition is not None:
            _count_refused(partition.counters, error.code, len(records))
        knows_start = error.code not in _WITHOUT_LOG_START_OFFSET and not isinstance(
            error, InvalidRecordSetError
        )
        if partition is not None and knows_start and topic_partition.topic not in INTERNAL_TOPICS:
            result.log_start_offset = partition.log_start_offset

    def has_to_wait(self, partition: Partition, last_offset: int, required_acks: int) -> bool:
        """Whether an answer waits for followers or the disk, whose flush begins then."""
        offsets = partition.log.offsets
        commit = self.shared_flush
        if commit is not None and (
            last_offset + 1 >= offsets.flush_due_offset or required_acks in commit.waiting_acks
        ):
            must_flush = self._must_flush(partition, last_offset + 1, required_acks)
            if must_flush and required_acks:
                return True
        return required_acks == REQUIRED_ACKS_ALL and offsets.high_watermark <= last_offset

    def _wake_readers(self, results: Results) -> None:
        for result in results:
            if result.base_offset >= 0:
                self.wake_fetches(result.topic_partition)

    def _check_is_free(self, topic_partition: TopicPartition) -> None:
        """Raise KafkaError or TakesLongError if a client's append may not be made now."""
        if topic_partition.topic in INTERNAL_TOPICS:
            raise _internal_topic(topic_partition)
        if topic_partition in self._waiting:
            raise TakesLongError

    def _append_later(
        self, request: _LongRequest, later: list[LongEntry], results: Results, timeout_ms: int
    ) -> AppendOutcome:
        appended = self._long.add(request, later)
        settled = self._requests.create_future()
        settle = partial(self._settle_later, settled, results, request, timeout_ms)
        appended.add_done_callback(settle)
        return AppendOutcome(results, settled, appended)

    def _settle_later(
        self,
        settled: asyncio.Future[Results],
        results: Results,
        request: _LongRequest,
        timeout_ms: int,
        appended: asyncio.Future[None],
    ) -> None:
        """Settle what need not wait for followers or the disk too, now that all is appended."""
        if settled.done():
            return
        if (error := appended.exception()) is not None:
            settled.set_exception(error)
            return
        # Nothing has woken this request until now.
        required_acks = request.required_acks
        pending = [each for each in request.pending if not self._is_settled(required_acks, each)]
        if pending:
            self._hold(settled, results, pending, required_acks, timeout_ms)
        else:
            settled.set_result(results)

    def _hold(
        self,
        settled: asyncio.Future[Results],
        results: Results,
        pending: list[_Pending],
        required_acks: int,
        timeout_ms: int,
    ) -> None:
        """Settle the results once the pending ones have what they wait for."""
        is_settled = partial(self._is_settled, required_acks)
        operation = DelayedProduce(results, pending, is_settled, settled)
        keys = [each.result.topic_partition for each in pending]
        self._requests.produces.hold(operation, keys, timeout_ms, settled)

    def _is_settled(self, required_acks: int, pending: _Pending) -> bool:
        """False while followers or the disk lack something; else the result holds the outcome."""
        result = pending.result
        try:
            partition = self.hosted.get(result.topic_partition)
        except KafkaError as error:
            result.error_code = error.code
            return True
        end_offset = result.last_offset + 1
        if pending.is_cut(partition):
            outcome: ErrorCode | None = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif required_acks == REQUIRED_ACKS_ALL:
            outcome = partition.check_committed(end_offset)
        else:
            outcome = ErrorCode.NONE if partition.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if outcome is None or (
            outcome is ErrorCode.NONE and self._must_flush(partition, end_offset, required_acks)
        ):
            return False
        result.error_code = outcome
        return True

    def _must_flush(self, partition: Partition, end_offset: int, required_acks: int) -> bool:
        """Whether an answer has to wait for the disk; begins the flush if so."""
        commit = self.shared_flush
        if commit is None or not commit.must_flush(partition, end_offset, required_acks):
            return False
        commit.flush(partition, end_offset)
        return commit.must_flush(partition, end_offset, required_acks)


class _Pending(NamedTuple):
    """A result that waits for followers or the disk, and the log its records were written to."""

    result: PartitionProduceResult
    log: Log
    cuts: int

    def is_cut(self, partition: Partition) -> bool:
        """Whether the log was cut or replaced since: other records may have the offsets."""
        return not self.log.is_continued_in(partition.log, self.cuts)


def _pending(result: PartitionProduceResult, partition: Partition) -> _Pending:
    return _Pending(result, partition.log, partition.log.offsets.cuts)


class _LongRequest:
    """A request with appends that come later (a LongRequest)."""

    def __init__(
        self, appends: Appends, required_acks: int, origin: AppendOrigin, pending: list[_Pending]
    ) -> None:
        self.required_acks = required_acks
        self.pending = pending
        self._appends = appends
        self._origin = origin

    def prepare(self, entry: LongEntry) -> Preparation | None:
        appends = self._appends
        try:
            partition = appends.hosted.get(entry.result.topic_partition)
            return partition.prepare_append(
                entry.records, self.required_acks, appends.clock.now_ms(), self._origin
            )
        except KafkaError as error:
            appends.refuse(entry.result, error, entry.records)
            return None

    def append(self, entry: LongEntry, prepared: Prepared | KafkaError) -> bool:
        appends, result = self._appends, entry.result
        try:
            if isinstance(prepared, KafkaError):
                raise prepared
            partition = appends.hosted.get(result.topic_partition)
            info = partition.append_prepared(prepared, self.required_acks, appends.clock.now_ms())
            if info is None:
                return False
        except KafkaError as error:
            appends.refuse(result, error, entry.records)
            return True
        counters = partition.counters
        counters.produce_requests += 1
        counters.messages_in += info.last_offset - info.first_offset + 1
        counters.bytes_in += info.records_size_bytes
        counters.produce_conversions += info.converted
        result.base_offset = info.first_offset
        result.last_offset = info.last_offset
        result.log_append_time_ms = info.log_append_time
        result.log_start_offset = info.log_start_offset
        if appends.has_to_wait(partition, info.last_offset, self.required_acks):
            self.pending.append(_pending(result, partition))
        if partition.append_has_committed:
            appends.wake_produces(result.topic_partition)
        appends.wake_fetches(result.topic_partition)
        return True


def _count_refused(counters: TopicCounters, code: ErrorCode, size_bytes: int) -> None:
    counters.produce_requests += 1
    if code is ErrorCode.MESSAGE_TOO_LARGE:
        counters.bytes_rejected += size_bytes
    if code not in _WITHOUT_LOG_START_OFFSET:
        counters.failed_produce_requests += 1


def _invalid_acks(entries: Entries) -> Results:
    return [
        PartitionProduceResult(topic_partition, ErrorCode.INVALID_REQUIRED_ACKS)
        for topic_partition, _ in entries
    ]


def _internal_topic(topic_partition: TopicPartition) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Cannot append to internal topic {topic_partition.topic}",
    )
