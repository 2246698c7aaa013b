"""A log and a log manager in memory, for tests of what stands above them.

They know format 2 batches only.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from operator import itemgetter
from struct import Struct
from types import SimpleNamespace
from uuid import UUID

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.leader_epoch_cache import LeaderEpochCache
from kbroker.log.partition.time_lookup import TimedBatch
from kbroker.log.producers.log_append_info import InvalidRecordSetError, LogAppendInfo
from kbroker.log.segments.fetch_data_info import FetchDataInfo, FetchIsolation
from kbroker.model import TopicPartition
from kbroker.record.record_batch import read_header, records

_START = Struct(">qii")


class MemoryLog:
    """Keeps whole batches in a list; `fail_with` is raised by the next access."""

    def __init__(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        self.is_deleted = False
        self.offsets = self
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = SimpleNamespace(
            min_insync_replicas=1,
            is_compacted=False,
            is_deleted=True,
            compression_type="producer",
            message_format=2,
            message_downconversion_enable=True,
        )
        self.directory = f"/data/{topic_partition}"
        self.producer_state = SimpleNamespace(producers={})
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.first_unstable_offset: int | None = None
        self.aborted: list = []
        self.recovery_point = 0
        self.flush_messages = 2**63 - 1
        self.sync_error: StorageError | None = None
        self.flush_count = 0
        self.flushes = SimpleNamespace(
            begin=self._begin_flush, complete=self._complete_flush, failed=self._flush_failed
        )
        self.cuts = 0
        self.successor = None
        self.leader_epoch_cache = LeaderEpochCache([], lambda _entries: None)
        self.batches: list[tuple[int, int, bytes]] = []  # base offset, last offset, bytes
        self.fail_with: KafkaError | None = None

    @property
    def last_stable_offset(self) -> int:
        if self.first_unstable_offset is None:
            return self.high_watermark
        return min(self.first_unstable_offset, self.high_watermark)

    @property
    def segments(self):
        segments = _Segments()
        size = sum(len(batch) for _, _, batch in self.batches)
        segments.append(SimpleNamespace(base_offset=0, largest_timestamp=0, size_bytes=size))
        segments.active = SimpleNamespace(size_bytes=len(self.batches), largest_timestamp=0)
        return segments

    def append_as_leader(self, batch, leader_epoch, now_ms, *, origin=None, limit=None):
        self._maybe_fail()
        if not len(batch):
            raise InvalidRecordSetError("no batch")
        header = read_header(batch)
        first = self.log_end_offset
        last = first + header.last_offset_delta
        _START.pack_into(batch, 0, first, header.batch_length, leader_epoch)
        self.batches.append((first, last, bytes(batch)))
        self.log_end_offset = last + 1
        return LogAppendInfo(first, last, header.max_timestamp, last, -1, 0, len(batch))

    def read(self, offset, max_bytes, isolation, min_one_message):
        self._maybe_fail()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        bound = {
            FetchIsolation.LOG_END: self.log_end_offset,
            FetchIsolation.HIGH_WATERMARK: self.high_watermark,
            FetchIsolation.TXN_COMMITTED: self.last_stable_offset,
        }[isolation]
        begin = bisect_left(self.batches, offset, key=itemgetter(1))
        end = bisect_left(self.batches, bound, begin, key=itemgetter(0))
        first = len(self.batches[begin][2]) if begin < end else 0
        if min_one_message:
            max_bytes = max(max_bytes, first)
        found = bytearray()
        for _, _, batch in islice(self.batches, begin, end):
            if len(found) >= max_bytes:
                break
            found += batch
        available = sum(len(batch) for _, _, batch in islice(self.batches, begin, end))
        aborted = self.aborted if isolation is FetchIsolation.TXN_COMMITTED else None
        cut = max_bytes < first
        return FetchDataInfo(offset, bytes(found[:max_bytes]), aborted, cut, available)

    def assign_topic_id(self, topic_id: UUID) -> None:
        self.topic_id = topic_id

    def begin_leader_epoch(self, leader_epoch):
        self.leader_epoch_cache.assign(leader_epoch, self.log_end_offset)

    def update_high_watermark(self, offset):
        self.high_watermark = max(self.high_watermark, min(offset, self.log_end_offset))
        return self.high_watermark

    def maybe_increment_log_start_offset(self, offset):
        self._maybe_fail()
        if offset > self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        moved = offset > self.log_start_offset
        self.log_start_offset = max(self.log_start_offset, offset)
        return moved

    def search_time(self, timestamp_ms, starting_offset):
        while (timed := self.batch_at_time(timestamp_ms, starting_offset)) is not None:
            found = timed if timed.takes_long else timed.search()
            if found is not None:
                return found
            starting_offset = timed.header.next_offset
        return None

    def batch_at_time(self, timestamp_ms, starting_offset):
        for _, last, batch in self.batches:
            header = read_header(batch)
            if header.max_timestamp >= timestamp_ms and last >= starting_offset:
                return TimedBatch(header, batch, timestamp_ms, starting_offset)
        return None

    def largest_timestamp(self):
        return max((r.timestamp for r in self._records()), default=-1)

    def is_continued_in(self, log, cuts):
        return log is self and self.cuts == cuts

    def _begin_flush(self, up_to_offset=None):
        end = self.log_end_offset if up_to_offset is None else up_to_offset
        if end <= self.recovery_point:
            return None
        return SimpleNamespace(end_offset=end, sync=self._sync, cuts=self.cuts)

    def truncate_to(self, offset):
        self.batches = [batch for batch in self.batches if batch[1] < offset]
        self.log_end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.cuts += 1

    @property
    def flush_due_offset(self):
        return self.recovery_point + self.flush_messages

    def _flush_failed(self, flush, error):
        if error.is_out_of_descriptors:
            return True
        self.fail_with = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return False

    def _complete_flush(self, flush, now_ms=0):
        self.flush_count += 1
        if flush.cuts == self.cuts:
            self.recovery_point = max(self.recovery_point, flush.end_offset)

    def _sync(self):
        if self.sync_error is not None:
            raise self.sync_error

    def _records(self):
        return [record for _, _, batch in self.batches for record in records(batch)]

    def _maybe_fail(self):
        if self.fail_with is not None:
            raise self.fail_with


class _Segments(list):
    active: SimpleNamespace

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self)


class MemoryLogManager:
    """Logs by partition. `refuse` makes the creation of a log fail."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.refuse: KafkaError | None = None
        self.data_directories: list = []
        self.checkpointed_starts: dict[TopicPartition, int] = {}
        self.waiting_writes: list | None = None  # a list: writes wait in it for the test
        self.refused_starts = False  # the disk takes no log start
        self.deleted: frozenset[TopicPartition] = frozenset()
        self.refused_deletions = False  # the disk takes no rename
        self.futures = SimpleNamespace(find=lambda _: None)
        self.checkpoints = SimpleNamespace(
            high_watermarks=self._write_high_watermarks, write_log_starts=self._write_log_starts
        )

    def all_logs(self):
        return list(self.logs.values())

    def all_futures(self):
        return []

    def directories(self):
        return list(self.data_directories)

    def _write_log_starts(self, wanted, on_written):
        def write():
            if self.refused_starts:
                on_written(frozenset(wanted))
                return
            starts = {p: log.log_start_offset for p, log in self.logs.items()}
            self.checkpointed_starts = {p: max(at, wanted.get(p, 0)) for p, at in starts.items()}
            on_written(frozenset())

        if self.waiting_writes is None:
            write()
        else:
            self.waiting_writes.append(write)

    def get_log(self, topic_partition):
        return self.logs.get(topic_partition)

    def get_or_create_log(self, topic_partition, topic_id, *, is_new=True):
        if self.refuse is not None:
            raise self.refuse
        if topic_partition not in self.logs:
            self.logs[topic_partition] = MemoryLog(topic_partition, topic_id)
        return self.logs[topic_partition]

    def delete_log(self, topic_partition):
        self.deleted |= {topic_partition}
        return self.logs.pop(topic_partition, None) is not None

    def finish_deletions(self, on_finished):
        on_finished(self.deleted if self.refused_deletions else frozenset())

    def read_high_watermarks(self):
        return dict(self.high_watermarks)

    def _write_high_watermarks(self, high_watermark_of):
        found = {}
        for partition in list(self.logs):
            found[partition] = high_watermark_of(partition)
            yield
        self.high_watermarks = {p: mark for p, mark in found.items() if mark is not None}
