"""Finds offsets for ListOffsets: by timestamp, and the special ones (KIP-79, KIP-734, KIP-405,
KIP-1005, KIP-1023); and for OffsetForLeaderEpoch: the ends of leader epochs (KIP-101, KIP-320).

Law: owned by the event loop; a refusal is the error code of one partition. A consumer learns of no
offset beyond what it may read. Batches that take long are searched on a worker thread; after each,
the partition is looked up again, because its log may have changed. A batch that cannot be read is
named in the broker's log once, and the search goes on after it; that for the newest record goes on
among the headers of all batches. As in Kafka, a newest record that DeleteRecords has deleted is
found as long as its segment is there. Nothing is tiered here: the special timestamps of tiered
storage find local offsets, or none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.partition.log import Log
from kbroker.log.partition.newest_batches import NewestBatches
from kbroker.log.partition.time_lookup import TimedBatch
from kbroker.log.segments.fetch_data_info import FetchIsolation, TimestampAndOffset
from kbroker.model import CONSUMER_REPLICA_ID, NO_TIMESTAMP, TopicPartition
from kbroker.protocol.messages.list_offsets import MAX_TIMESTAMP
from kbroker.replication.long_work import LongWork
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.reads.unreadable_batches import UnreadableBatches
from kbroker.turns import turn

LATEST = -1
EARLIEST = -2
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_FIRST_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5

DEBUGGING_REPLICA_ID = -2
ANY_REPLICA_ID = -4  # in OffsetForLeaderEpoch, ours alone: Kafka has -1, -2 and -3
_NOT_FOUND = TimestampAndOffset(NO_TIMESTAMP, -1, None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OffsetParams:
    """The part of a ListOffsets request that applies to all its partitions."""

    version: int
    isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK  # LOG_END for followers
    leader_only: bool = True


class OffsetQuery(NamedTuple):
    """A partition, and the timestamp to look for there."""

    topic_partition: TopicPartition
    timestamp: int
    current_leader_epoch: int = -1


class OffsetResult(NamedTuple):
    """The offset that was found; -1 in all fields if none was, or after an error."""

    error_code: ErrorCode
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


class _Looked(NamedTuple):
    """A batch that was searched, and the record found in it."""

    batch: TimedBatch
    found: TimestampAndOffset | None


class _Search(NamedTuple):
    """A search by time that has come to a batch for a worker thread."""

    query: OffsetQuery
    batch: TimedBatch
    older: tuple[tuple[int, int], ...] = ()  # (time, base offset) of the batches to search next


class OffsetLookup:
    """Finds offsets in the partitions of a broker."""

    def __init__(self, hosted: HostedPartitions, work: LongWork) -> None:
        self._hosted = hosted
        self._work = work
        self._unreadable = UnreadableBatches("look-ups by time go past it")

    def list_offsets(
        self, params: OffsetParams, queries: Sequence[OffsetQuery]
    ) -> list[OffsetResult] | Awaitable[list[OffsetResult]]:
        """One result per query, in their order; a plain list if no batch takes long."""
        results: list[OffsetResult] = []
        searches: list[tuple[int, _Search]] = []
        for index, query in enumerate(queries):
            found = self._answer(params, query, None)
            if isinstance(found, _Search):
                searches.append((index, found))
                found = OffsetResult(ErrorCode.NONE)
            results.append(found)
        return self._finish(params, results, searches) if searches else results

    async def _finish(
        self,
        params: OffsetParams,
        results: list[OffsetResult],
        searches: list[tuple[int, _Search]],
    ) -> list[OffsetResult]:
        for index, search in searches:
            step: OffsetResult | _Search = search
            while isinstance(step, _Search):
                step = await self._step(params, step)
            results[index] = step
        return results

    async def _step(self, params: OffsetParams, search: _Search) -> OffsetResult | _Search:
        query, batch = search.query, search.batch
        found = None
        try:
            found = await self._work.run(TimedBatch.search, batch)
        except KafkaError as error:
            self._unreadable.report(query.topic_partition, batch.header.base_offset, str(error))
        if found is None and query.timestamp == MAX_TIMESTAMP:
            return await self._next_newest(params, search)
        return self._answer(params, query, _Looked(batch, found))

    async def _next_newest(self, params: OffsetParams, search: _Search) -> OffsetResult | _Search:
        """Go on with the search for the newest record, which was not in this batch."""
        query, after, older = search
        try:
            if not older:
                newest = NewestBatches(after)
                while newest.look(self._partition(params, query).log):
                    await turn()
                older = newest.places()
            for index, (timestamp, offset) in enumerate(older, 1):
                log = self._partition(params, query).log
                batch = log.batch_at_time(timestamp, offset)
                if batch is not None:
                    return _Search(query, batch, older[index:])
        except KafkaError as error:
            return OffsetResult(error.code)
        return OffsetResult(ErrorCode.NONE)

    def _partition(self, params: OffsetParams, query: OffsetQuery) -> Partition:
        """The partition, if the request may search it. Raises KafkaError."""
        partition = self._hosted.get(query.topic_partition)
        partition.check_access(query.current_leader_epoch, leader_only=params.leader_only)
        return partition

    def _answer(
        self, params: OffsetParams, query: OffsetQuery, looked: _Looked | None
    ) -> OffsetResult | _Search:
        if not _is_known(query.timestamp, params.version):
            return OffsetResult(ErrorCode.UNSUPPORTED_VERSION)
        try:
            partition = self._partition(params, query)
            found = _find(partition, params, query.timestamp, looked)
        except KafkaError as error:
            return OffsetResult(error.code)
        if isinstance(found, TimedBatch):
            return _Search(query, found)
        epoch = -1 if found.leader_epoch is None else found.leader_epoch
        return OffsetResult(ErrorCode.NONE, found.timestamp, found.offset, epoch)

    def end_offset_for_epoch(
        self,
        topic_partition: TopicPartition,
        current_leader_epoch: int,
        leader_epoch: int,
        replica_id: int = CONSUMER_REPLICA_ID,
    ) -> OffsetResult:
        """Return the largest epoch not above `leader_epoch`, and its end in the leader's log."""
        try:
            partition = self._hosted.get(topic_partition)
            partition.check_access(current_leader_epoch, leader_only=True)
        except KafkaError as error:
            return OffsetResult(error.code)
        found = partition.end_offset_for_epoch(leader_epoch, replica_id)
        return OffsetResult(ErrorCode.NONE, -1, found.end_offset, found.epoch)

    def log_end(self, topic_partition: TopicPartition) -> OffsetResult:
        """Return the end of this replica's log and the epoch of its last record, whoever leads."""
        try:
            log = self._hosted.get(topic_partition).log
        except KafkaError as error:
            return OffsetResult(error.code)
        end_offset = log.log_end_offset
        epoch = log.leader_epoch_cache.epoch_for_offset(end_offset - 1)
        return OffsetResult(ErrorCode.NONE, -1, end_offset, -1 if epoch is None else epoch)

    def list_offsets_before(
        self, params: OffsetParams, query: OffsetQuery, max_offsets: int
    ) -> tuple[ErrorCode, list[int]]:
        """Answer version 0: start offsets of segments up to a timestamp, the newest first."""
        if not _is_known(query.timestamp, 0):
            return ErrorCode.UNSUPPORTED_VERSION, []
        max_offsets = max(max_offsets, 0)
        try:
            partition = self._hosted.get(query.topic_partition)
            partition.check_access(-1, leader_only=params.leader_only)
        except KafkaError as error:
            return error.code, []
        offsets = _segment_offsets_before(partition.log, query.timestamp, max_offsets)
        end = partition.last_fetchable_offset(params.isolation)
        if offsets and offsets[0] > end:
            offsets = [end, *(offset for offset in offsets if offset < end)][:max_offsets]
        return ErrorCode.NONE, offsets


def _is_known(timestamp: int, version: int) -> bool:
    return timestamp >= 0 or version >= _FIRST_VERSION.get(timestamp, 1 << 15)


def _find(
    partition: Partition, params: OffsetParams, timestamp: int, looked: _Looked | None
) -> TimestampAndOffset | TimedBatch:
    """Return the offset asked for, or the batch to search for it. Raises KafkaError."""
    log = partition.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start_offset = log.log_start_offset
        epoch = log.leader_epoch_cache.epoch_for_offset(start_offset)
        return TimestampAndOffset(NO_TIMESTAMP, start_offset, epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOT_FOUND
    end = partition.last_fetchable_offset(params.isolation)
    if timestamp == LATEST:
        _check_end_is_known(partition, params)
        return TimestampAndOffset(NO_TIMESTAMP, end, partition.leader_epoch)
    found = _by_time(log, timestamp, looked) or _NOT_FOUND
    if isinstance(found, TimestampAndOffset) and found.offset >= end:
        _check_end_is_known(partition, params)
        return _NOT_FOUND
    return found


def _by_time(
    log: Log, timestamp: int, looked: _Looked | None
) -> TimestampAndOffset | TimedBatch | None:
    """The next step of a search: the record found, or the batch to search."""
    if looked is None:
        if timestamp == MAX_TIMESTAMP:
            return _newest(log)
        return log.search_time(timestamp, log.log_start_offset)
    if looked.found is not None:
        return looked.found
    after = looked.batch.header.next_offset
    return log.search_time(timestamp, max(after, log.log_start_offset))


def _newest(log: Log) -> TimestampAndOffset | TimedBatch | None:
    """The first of the newest records, or the batch to search for it."""
    batch = log.batch_at_time(log.largest_timestamp(), 0)
    if batch is None or batch.takes_long:
        return batch
    try:
        return batch.search() or batch
    except KafkaError:
        return batch  # whoever searches it again reports it


def _check_end_is_known(partition: Partition, params: OffsetParams) -> None:
    """Raise KafkaError while a new leader has yet to learn the high watermark (KIP-207)."""
    if params.isolation is FetchIsolation.LOG_END:
        return
    if partition.high_watermark < partition.state.leader_epoch_start_offset:
        known = params.version >= _FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE,
            f"The high watermark of {partition.topic_partition} is not known yet",
        )


def _segment_offsets_before(log: Log, timestamp: int, max_offsets: int) -> list[int]:
    """The start offsets of segments, and the log end, up to a timestamp; the newest first."""
    marks = [
        (max(segment.base_offset, log.log_start_offset), segment.largest_timestamp)
        for segment in log.segments
    ]
    if log.segments.active.size_bytes > 0:
        marks.append((log.log_end_offset, log.segments.active.largest_timestamp))
    if timestamp == EARLIEST:
        marks = marks[:1]
    elif timestamp != LATEST:
        marks = [mark for mark in marks if mark[1] <= timestamp]
    newest_first = sorted({offset for offset, _ in marks}, reverse=True)
    return newest_first[:max_offsets]
