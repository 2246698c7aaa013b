"""The log of one partition: append, read, roll, truncate, delete what is old.

Law: offsets only rise; nothing is read beyond the bound of its isolation level. Each part keeps a
state of its own, and nobody else sets it: `PartitionDirectory` what the disk has refused,
`LogOffsets` the bounds, `SegmentStore` the files, `LeaderEpochCache` the epochs, `LogProducers` the
producers, `LogAppends` the rules of an append, `LogFlush` the time of the last sync.
`log_truncation`, `segment_roll` and `LogReader` work on these.

Owned by the event loop and synchronous throughout. Only `PendingFlush.sync` and the slices that
reads hand out may be used on worker threads.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.append_rules import AppendRules
from kbroker.log.disk.checkpoint import EpochFile
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition import log_retention, log_truncation, time_lookup
from kbroker.log.partition.deleted_segments import SegmentRenaming
from kbroker.log.partition.log_appends import LogAppends, Records
from kbroker.log.partition.log_flush import LogFlush
from kbroker.log.partition.log_offsets import LogOffsets
from kbroker.log.partition.log_parts import LogParts
from kbroker.log.partition.log_producers import LogProducers
from kbroker.log.partition.log_reader import LogReader
from kbroker.log.partition.log_state import LogEnvironment, LogState
from kbroker.log.partition.partition_directory import PartitionDirectory
from kbroker.log.partition.segment_roll import start_segment, start_segment_if_there_is_room
from kbroker.log.partition.segment_store import SegmentStore
from kbroker.log.partition.time_lookup import TimedBatch
from kbroker.log.producers.log_append_info import LogAppendInfo
from kbroker.log.producers.producer_state import ProducerStateManager
from kbroker.log.segments.fetch_data_info import TimestampAndOffset
from kbroker.log.segments.log_segment import LogSegment
from kbroker.model import TopicPartition


class Log:
    """One partition's log. `log_start_offset` is inclusive, all other bounds are exclusive."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str,
        config: TopicConfig,
        environment: LogEnvironment,
        state: LogState,
    ) -> None:
        self.topic_partition = topic_partition
        self.successor: tuple[Log, int] | None = None  # the copy in its place, and its cuts then
        self.segments = state.segments
        self.leader_epoch_cache = state.leader_epoch_cache
        self.partition_directory = place = PartitionDirectory(
            topic_partition, directory, state.topic_id, environment
        )
        self.offsets = LogOffsets(
            state.log_start_offset, state.log_end_offset, state.recovery_point
        )
        self.files = files = SegmentStore(
            environment.file_system, directory, state.segments, environment.draw_jitter
        )
        self.producers = LogProducers(
            place, files, state.producer_state, state.last_snapshot_offset
        )
        self._parts = parts = LogParts(
            place, self.offsets, files, state.leader_epoch_cache, self.producers
        )
        self.appends = LogAppends(parts)
        self.flushes = LogFlush(parts)
        # Bound here, as every Produce and Fetch calls them.
        self.append_as_leader = self.appends.append_as_leader
        self.read = LogReader(parts).read
        files.unsynced.closed(state.unsynced_segments())
        self.update_config(config)

    def update_config(self, config: TopicConfig) -> None:
        """Use new topic settings from the next append on."""
        self.config = config
        self.appends.update_config(config)
        self.files.update_config(config)
        self.offsets.flush_every(config.flush_messages)

    @property
    def directory(self) -> str:
        return self.partition_directory.path

    @property
    def topic_id(self) -> UUID | None:
        return self.partition_directory.topic_id

    @property
    def failure(self) -> StorageError | None:
        return self.partition_directory.failure

    @property
    def is_deleted(self) -> bool:
        return self.partition_directory.is_deleted

    @property
    def log_start_offset(self) -> int:
        return self.offsets.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.offsets.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.offsets.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Exclusive bound of committed data: below it no transaction is open or unreplicated."""
        first_unstable_offset = self.producers.state.first_unstable_offset
        if first_unstable_offset is None:
            return self.offsets.high_watermark
        return self.offsets.last_stable_offset(first_unstable_offset)

    @property
    def cleaned_end_offset(self) -> int | None:
        return self.offsets.cleaned_end_offset

    @property
    def rules(self) -> AppendRules:
        return self.appends.rules

    @property
    def producer_state(self) -> ProducerStateManager:
        return self.producers.state

    def is_continued_in(self, log: Log, cuts: int) -> bool:
        """Whether `log` has the records that this one had after `cuts` cuts: it is this one, or has
        taken its place on another disk.
        """
        here: Log = self
        while here.offsets.cuts == cuts:
            if here is log:
                return True
            if here.successor is None:
                return False
            here, cuts = here.successor
        return False

    def append_as_follower(
        self, records: Records | bytes, now_ms: int = 0, leader_start_offset: int = 0
    ) -> LogAppendInfo:
        return self.appends.append_as_follower(records, now_ms, leader_start_offset)

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        """Note that this epoch writes from the log end on; KafkaError(KAFKA_STORAGE_ERROR)."""
        self.partition_directory.gapless_from(self.log_end_offset)
        try:
            self.appends.assign_epoch(leader_epoch, self.log_end_offset)
        except KafkaError:
            if self.failure is not None:  # else it does not fit: its first append notes it
                raise

    def search_time(
        self, timestamp_ms: int, starting_offset: int
    ) -> TimestampAndOffset | TimedBatch | None:
        """The first record at or after a time and an offset, or the batch to look into for it; None
        if there is neither. KafkaError: KAFKA_STORAGE_ERROR, INVALID_RECORD.
        """
        with self.partition_directory.refusals():
            return time_lookup.search(self.segments, timestamp_ms, starting_offset)

    def batch_at_time(self, timestamp_ms: int, starting_offset: int) -> TimedBatch | None:
        """The first batch with offsets from there on that mentions a record at or after a time.
        KafkaError(KAFKA_STORAGE_ERROR).
        """
        with self.partition_directory.refusals():
            return time_lookup.next_timed_batch(self.segments, timestamp_ms, starting_offset)

    def largest_timestamp(self) -> int:
        """The newest time of all records, -1 without any. KafkaError(KAFKA_STORAGE_ERROR)."""
        with self.partition_directory.refusals():
            return max(segment.largest_timestamp for segment in self.segments)

    def update_high_watermark(self, offset: int) -> int:
        """Move the high watermark up to `offset`, within the log, never down; the one in force."""
        offsets = self.offsets
        if offsets.raise_high_watermark(offset):
            producers = self.producers.state
            if producers.first_unstable_offset is not None:
                producers.on_high_watermark(offsets.high_watermark)
        return offsets.high_watermark

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Hide what is below `offset` (DeleteRecords, or a leader that did); True when the start
        moved. Raises KafkaError: OFFSET_OUT_OF_RANGE above the high watermark, KAFKA_STORAGE_ERROR.
        """
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition "
                f"{self.topic_partition} since it is larger than the high watermark "
                f"{self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.offsets.raise_log_start(offset)
        with self.partition_directory.refusals():
            self.leader_epoch_cache.truncate_from_start(offset)
        self.producers.start_raised_to(offset)
        return True

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        return log_truncation.truncate_to(self._parts, offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        log_truncation.truncate_fully_and_start_at(self._parts, offset, now_ms)

    def roll(self, now_ms: int) -> LogSegment:
        """Close the active segment, if it holds anything, and start one at the log end."""
        with self.partition_directory.refusals():
            return start_segment(self._parts, now_ms, self.log_end_offset)

    def flush(self, up_to_offset: int | None = None, *, and_closed: bool = False) -> None:
        """Sync all below `up_to_offset` (None: the log end). KafkaError(KAFKA_STORAGE_ERROR)."""
        pending = self.flushes.begin(up_to_offset, and_closed=and_closed)
        if pending is not None:
            with self.partition_directory.refusals():
                pending.sync()
            self.flushes.complete(pending)

    def expire_segments(self, now_ms: int) -> bool:
        """Move the log start past what is beyond retention; True if segments are before it."""
        if self.offsets.unfinished_cut is not None:
            return False
        segments = list(self.segments)
        with self.partition_directory.refusals():
            count = log_retention.deletable_segments(segments, self.config, self.offsets, now_ms)
        if count == len(segments) and not start_segment_if_there_is_room(self._parts, now_ms):
            count -= 1
        if count:
            self.maybe_increment_log_start_offset(self.segments[count].base_offset)
        return count > 0

    def expired_segments(self) -> list[LogSegment]:
        """The segments that are before the log start as a whole, the oldest first."""
        return log_retention.before_start(self.segments, self.log_start_offset)

    def let_go_of_expired(self, limit: int, now_ms: int) -> SegmentRenaming:
        """Take out segments before the log start, oldest first; the caller renames their files."""
        remove_at_ms = now_ms + self.config.file_delete_delay_ms
        with self.partition_directory.refusals():
            return self.files.let_go(self.expired_segments()[:limit], remove_at_ms)

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Write the topic id down, once."""
        if self.topic_id is None:
            self.partition_directory.write_topic_id(topic_id)
            self.files.unsynced.place_changed()
        assert self.topic_id == topic_id, (self.topic_id, topic_id, self.directory)

    def close(self) -> None:
        """Snapshot the producers, trim the files, give descriptors back; nothing is synced."""
        if self.failure is None:
            self.producers.take_snapshot()
            self.files.close()
        self.files.close_files()

    def move_to(self, directory: str) -> None:
        """Follow a rename of the partition's directory: descriptors go back, paths change."""
        self.files.move_to(directory)
        self.partition_directory.moved_to(directory)
        file_system = self.partition_directory.environment.file_system
        self.leader_epoch_cache.store_in(EpochFile(file_system, directory))

    def become_copy_of(self, log: Log) -> None:
        """Note what the records that were copied do not say: epochs without any, producers whose
        records are gone, how far it is committed. StorageError, KafkaError(KAFKA_STORAGE_ERROR).
        """
        if log.topic_id is not None:  # known since the copy was begun
            self.assign_topic_id(log.topic_id)
        self.leader_epoch_cache.replace(log.leader_epoch_cache.entries)
        self.update_high_watermark(log.high_watermark)
        self.maybe_increment_log_start_offset(log.log_start_offset)
        self.producers.become_copy_of(log.producers, self.log_end_offset)

    def take_place_of(self, log: Log) -> None:
        """Go on as that log, whose copy this one has become; that one is deleted."""
        self.producers.take_over(log.producers)
        self.offsets.cleaned_to(log.cleaned_end_offset)
        log._give_way_to(self)

    def _give_way_to(self, copy: Log) -> None:
        self.successor = copy, copy.offsets.cuts
        self.partition_directory.deleted()
