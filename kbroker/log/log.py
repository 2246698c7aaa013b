"""The log of one partition: append, read, roll, truncate, delete what is old.

Law: offsets only rise; nothing is read beyond the bound of its isolation level; the high watermark
moves back only when the log is cut below it. After the disk has refused a write the log takes no
more of them: a half-written tail must not be followed by whole batches. A full disk passes: what
does not fit is refused and cut off, and the next append finds the log as it was.

Owned by the event loop and synchronous throughout. Only `PendingFlush.sync` and the slices that
reads hand out may be used on worker threads.
"""

from __future__ import annotations

import logging
from uuid import UUID

from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log import log_flush, log_read, time_lookup
from kbroker.log.append import log_write
from kbroker.log.append.append_preparation import Preparation, Prepared
from kbroker.log.append.append_rules import AppendRules
from kbroker.log.append.log_append_info import AppendOrigin, LogAppendInfo
from kbroker.log.append.message_set_append import Place
from kbroker.log.deletion import log_retention
from kbroker.log.deletion.rename_to_deleted import SegmentRenaming
from kbroker.log.directories.checkpoint import write_partition_metadata
from kbroker.log.fetch_data_info import FetchDataInfo, FetchIsolation, TimestampAndOffset
from kbroker.log.file_system import StorageError
from kbroker.log.log_segment import LogSegment
from kbroker.log.log_state import Cut, LogEnvironment, LogState, PendingFlush
from kbroker.log.producers.producer_replay import rewind
from kbroker.log.segment_store import SegmentStore
from kbroker.log.time_lookup import TimedBatch
from kbroker.model import TopicPartition
from kbroker.record.record_batch import MAGIC

_log = logging.getLogger(__name__)


class Log:
    """One partition's log; `log_start_offset` is inclusive, all other bounds are exclusive."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str,
        config: TopicConfig,
        environment: LogEnvironment,
        state: LogState,
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.topic_id = state.topic_id
        self.segments = state.segments
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.high_watermark = state.log_start_offset
        self.recovery_point = state.recovery_point
        self.leader_epoch_cache = state.leader_epoch_cache
        self.producer_state = state.producer_state
        self.files = SegmentStore(
            environment.file_system, directory, state.segments, environment.draw_jitter
        )
        self.snapshots = self.files.snapshots
        self.failure: StorageError | None = None
        self.last_flush_ms = 0
        self.cleaned_end_offset: int | None = None  # how far the cleaner came; None: not at all
        self.is_deleted = False
        self.flush_due_offset = 0  # an end offset from which on appends wait for a flush
        self.unfinished_cut: int | None = None  # where a truncation came to no end
        self.cuts = 0  # how often the end was cut off: offsets got other records then
        self.environment = environment
        self._last_snapshot_offset = state.last_snapshot_offset
        self.files.unsynced.closed(state.unsynced_segments())
        self.update_config(config)

    def update_config(self, config: TopicConfig) -> None:
        """Use new topic settings from the next append on."""
        self.config = config
        self.rules = AppendRules.of(config, walks_records=self.environment.walks_records)
        self.leader_epoch_cache.is_kept = self.rules.magic == MAGIC
        self.segment_ms = config.segment_ms_effective()
        self.files.update_config(config)
        self._set_recovery_point(self.recovery_point)

    @property
    def last_stable_offset(self) -> int:
        """Exclusive bound of committed data: below it no transaction is open or unreplicated."""
        first_unstable = self.producer_state.first_unstable_offset
        if first_unstable is None or first_unstable >= self.high_watermark:
            return self.high_watermark
        return max(first_unstable, self.log_start_offset)

    append_as_leader = log_write.append_as_leader

    def prepare_append(
        self, records: memoryview | bytearray, leader_epoch: int, now_ms: int, origin: AppendOrigin
    ) -> Preparation:
        """What a worker thread has to run before `append_prepared`."""
        place = Place(self.topic_partition, self.log_end_offset, leader_epoch, now_ms)
        return Preparation(records, origin, self.rules, place)

    def append_prepared(
        self, prepared: Prepared, leader_epoch: int, now_ms: int
    ) -> LogAppendInfo | None:
        """As `append_as_leader`; None where it is to be prepared again: settings or offsets changed
        meanwhile.
        """
        return log_write.append_prepared(self, prepared, leader_epoch, now_ms)

    def append_as_follower(
        self, records: memoryview | bytearray | bytes, now_ms: int = 0
    ) -> LogAppendInfo:
        """Append what the leader sent, offsets and epochs as they are; a batch that is cut off at
        the end is left out.

        KafkaError: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE (they do not rise), KAFKA_STORAGE_ERROR.
        """
        return log_write.append_as_follower(self, records, now_ms)

    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        min_one_message: bool = False,
    ) -> FetchDataInfo:
        """Batches from the one that holds `offset` on, out of one segment and below the bound of
        `isolation`.

        Raises KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
        """
        try:
            return log_read.read(self, offset, max_bytes, isolation, min_one_message)
        except StorageError as error:
            raise self.failed(error) from error

    def search_time(
        self, timestamp_ms: int, starting_offset: int
    ) -> TimestampAndOffset | TimedBatch | None:
        """The first record at or after a time and an offset, or the batch to look into for it; None
        for neither. KafkaError: KAFKA_STORAGE_ERROR, INVALID_RECORD.
        """
        try:
            return time_lookup.search(self, timestamp_ms, starting_offset)
        except StorageError as error:
            raise self.failed(error) from error

    def largest_timestamp(self) -> int:
        """The newest time of all records, -1 without any. KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            return time_lookup.largest_timestamp(self)
        except StorageError as error:
            raise self.failed(error) from error

    def update_high_watermark(self, offset: int) -> int:
        """Move the high watermark up to `offset`, within the log, never down; the one in force."""
        end_offset = self.log_end_offset
        bounded = end_offset if offset >= end_offset else max(offset, self.log_start_offset)
        if bounded > self.high_watermark:
            self.high_watermark = bounded
            self.producer_state.on_high_watermark(bounded)
        return self.high_watermark

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Hide what is below `offset` (DeleteRecords, or a leader that did); True when the start
        moved.

        Raises KafkaError: OFFSET_OUT_OF_RANGE above the high watermark, KAFKA_STORAGE_ERROR.
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
        self.log_start_offset = offset
        try:
            self.leader_epoch_cache.truncate_from_start(offset)
        except StorageError as error:
            raise self.failed(error) from error
        self.producer_state.on_log_start_offset(offset)
        self._last_snapshot_offset = max(self._last_snapshot_offset, offset)
        return True

    def roll(self, now_ms: int) -> LogSegment:
        """Close the active segment, if it holds anything, and start one at the log end."""
        try:
            return self.roll_at(self.log_end_offset, now_ms)
        except StorageError as error:
            raise self.failed(error) from error

    def begin_flush(
        self, up_to_offset: int | None = None, *, and_closed: bool = False
    ) -> PendingFlush | None:
        """What must be synced to have all below `up_to_offset` (None: log end) on disk, if any;
        `and_closed`: also where only files of closed segments wait for it.
        """
        return log_flush.begin(self, up_to_offset, and_closed=and_closed)

    def complete_flush(self, flush: PendingFlush, now_ms: int = 0) -> None:
        """All of `flush` has been synced: recovery may start behind its records."""
        self.last_flush_ms = now_ms
        # After a cut, other records have those offsets; and the system reports a failed sync once.
        if flush.cuts == self.cuts and self.failure is None:
            self.files.unsynced.synced(flush.marks)
            self._set_recovery_point(max(self.recovery_point, flush.end_offset))

    def flush_failed(self, flush: PendingFlush, error: StorageError) -> bool:
        """The sync of `flush` failed, and the log with it; True where it is to be begun again."""
        if log_flush.may_begin_again(self, flush, error):
            return True
        if not self.is_deleted:
            self.failed(error)
        return False

    def flush(self, up_to_offset: int | None = None, *, and_closed: bool = False) -> None:
        """Sync all below `up_to_offset` (None: the log end). KafkaError(KAFKA_STORAGE_ERROR)."""
        pending = self.begin_flush(up_to_offset, and_closed=and_closed)
        if pending is not None:
            try:
                pending.sync()
            except StorageError as error:
                raise self.failed(error) from error
            self.complete_flush(pending)

    def expire_segments(self, now_ms: int) -> bool:
        """Move the log start behind what is beyond retention; True where segments lie before it."""
        try:
            return log_retention.expire(self, now_ms, self._rolled_for_retention)
        except StorageError as error:
            raise self.failed(error) from error

    def let_go_of_expired(self, limit: int, now_ms: int) -> SegmentRenaming:
        """Take out segments before the log start, oldest first; the caller renames their files."""
        remove_at_ms = now_ms + self.config.file_delete_delay_ms
        try:
            return self.files.let_go(log_retention.before_start(self)[:limit], remove_at_ms)
        except StorageError as error:
            raise self.failed(error) from error

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Cut the log so that it ends at `offset`; False when it already ends there or earlier."""
        if self.unfinished_cut is not None:
            offset = min(offset, self.unfinished_cut)
        elif offset >= self.log_end_offset:
            return False
        if self.segments[0].base_offset > offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        try:
            self.cut_at(offset, now_ms)
        except StorageError as error:
            raise self.failed(error) from error
        return True

    def cut_at(self, offset: int, now_ms: int) -> None:
        """Drop the batch that holds `offset`, where there is one, and all after it. StorageError:
        the next append or truncation begins with it.

        No first segment may lie behind `offset`.
        """
        self.unfinished_cut = offset
        end_offset, safe_offset = self.files.bounds_if_cut(offset)
        self._before_cut(end_offset, min(self.log_start_offset, end_offset), safe_offset)
        self._cut_state_at(self.files.truncate_to(offset, now_ms), now_ms)
        self.unfinished_cut = None

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Drop everything; the log is empty and starts and ends at `offset`."""
        try:
            self._before_cut(offset, self.log_start_offset, offset)
            self.files.truncate_fully(offset, now_ms)
        except StorageError as error:
            raise self.failed(error) from error
        self.log_start_offset = self.log_end_offset = self.high_watermark = offset
        self._note_cut(offset)
        self.unfinished_cut = offset
        self.leader_epoch_cache.clear()
        self.snapshots.delete_outside(offset, offset)
        self.producer_state.clear(offset)
        self._last_snapshot_offset = offset
        try:
            # Before there are records below the start that it had.
            self._before_cut(offset, offset, offset)
        except StorageError as error:
            raise self.failed(error) from error
        self.unfinished_cut = None

    def expect_gaps(self, below: int | None = None) -> None:
        """Note durably that offsets `below` one will be missing; on any thread. StorageError."""
        self.environment.before_gap(self.directory, self.topic_partition, below)

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Write the topic id down, once."""
        if self.topic_id is None:
            try:
                write_partition_metadata(self.environment.file_system, self.directory, topic_id)
            except StorageError as error:
                raise self.failed(error) from error
            self.topic_id = topic_id
            self.files.unsynced.place_changed()
        assert self.topic_id == topic_id, (self.topic_id, topic_id, self.directory)

    def take_snapshot(self) -> None:
        """Write the producer state down, if the log has grown since the last time."""
        end_offset = self.producer_state.map_end_offset
        if end_offset > self._last_snapshot_offset:
            entries = self.producer_state.producers.values()
            self.files.unsynced.snapshot = self.snapshots.write(end_offset, entries, sync=False)
            self.files.unsynced.names_changed()
            self._last_snapshot_offset = end_offset

    def close(self) -> None:
        """Snapshot the producers, trim the files, give descriptors back; nothing is synced."""
        if self.failure is None:
            self.take_snapshot()
            self.files.close()
        self.close_files()

    def close_files(self) -> None:
        """Give all descriptors back; the next use opens the files again."""
        self.files.close_files()

    def move_to(self, directory: str) -> None:
        """Follow a rename of the partition's directory: descriptors go back, paths change."""
        self.files.move_to(directory)
        self.directory = directory

    def finish_cut(self) -> None:
        """End a truncation that came to no end. Always raises KafkaError(KAFKA_STORAGE_ERROR): what
        was looked up before is of no use any more.
        """
        assert self.unfinished_cut is not None
        self.truncate_to(self.unfinished_cut)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The log was cut just now: try again")

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        """Note that this epoch writes from the log end on; KafkaError(KAFKA_STORAGE_ERROR)."""
        self.environment.on_gapless(self.directory, self.topic_partition, self.log_end_offset)
        try:
            self.assign_epoch(leader_epoch, self.log_end_offset)
        except KafkaError:
            if self.failure is not None:  # else it does not fit: its first append notes it
                raise

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Note that this epoch writes from `start_offset` on. KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            self.leader_epoch_cache.assign(leader_epoch, start_offset)
        except StorageError as error:
            raise self.failed(error) from error

    def roll_at(self, base_offset: int, now_ms: int) -> LogSegment:
        """Start the next segment at `base_offset`, unless the active one is empty and does.
        StorageError.
        """
        active = self.segments.active
        if active.base_offset == base_offset and not active.size_bytes:
            return active
        self.environment.before_roll(self.directory, self.topic_partition)
        self.producer_state.map_end_offset = base_offset
        self.take_snapshot()
        return self.files.roll(base_offset, now_ms)

    def _rolled_for_retention(self, now_ms: int) -> bool:
        """Start an empty segment, so that the last one with records may go; False: no room."""
        try:
            return bool(self.roll_at(self.log_end_offset, now_ms))
        except StorageError as error:
            if not error.is_passing:
                raise
            return False

    def _set_recovery_point(self, offset: int) -> None:
        self.recovery_point = offset
        self.flush_due_offset = offset + self.config.flush_messages

    def _note_cut(self, end_offset: int) -> None:
        self.cuts += 1
        self._set_recovery_point(min(self.recovery_point, end_offset))
        if self.cleaned_end_offset is not None:
            self.cleaned_end_offset = min(self.cleaned_end_offset, end_offset)
        # Appends to come leave no gap, or say so before.
        self.environment.on_gapless(self.directory, self.topic_partition, end_offset)

    def _before_cut(self, end_offset: int, start_offset: int, safe_offset: int) -> None:
        cut = Cut(end_offset, start_offset, safe_offset)
        self.environment.before_cut(self.directory, self.topic_partition, cut)

    def _cut_state_at(self, end_offset: int, now_ms: int) -> None:
        self.log_end_offset = end_offset
        self._note_cut(end_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.leader_epoch_cache.truncate_from_end(end_offset)
        self.snapshots.delete_outside(0, end_offset)
        bounds = (self.log_start_offset, end_offset)
        times = (now_ms, self.environment.producer_id_expiration_ms)
        state = self.producer_state
        self._last_snapshot_offset = rewind(state, self.snapshots, self.segments, bounds, times)
        state.on_high_watermark(self.high_watermark)

    def failed(self, error: StorageError) -> KafkaError:
        """Note what the disk has refused; the error to answer with."""
        if error.is_out_of_space:
            self.environment.on_full(self.directory, error, 0)
        if self.failure is None and not error.is_passing:
            self.failure = error
            _log.error("Log of %s fails: %s", self.topic_partition, error)
            self.environment.on_failure(self.directory, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
