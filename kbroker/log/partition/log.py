"""The log of one partition: append, read, roll, truncate, delete what is old.

Law: offsets only rise; nothing is read beyond the bound of its isolation level; the high watermark
moves back only when the log is cut below it. After the disk has refused a write the log takes no
more of them: a half-written tail must not be followed by whole batches. A full disk passes: what
does not fit is refused and cut off, and the next append finds the log as it was.

Owned by the event loop and synchronous throughout. Only `PendingFlush.sync` and the slices that
reads hand out may be used on worker threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from kbroker.errors import KafkaError
from kbroker.log.append.append_preparation import Preparation, Prepared
from kbroker.log.append.append_rules import Place
from kbroker.log.disk.checkpoint import EpochFile, write_partition_metadata
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition import log_flush, log_read, log_retention, log_write, time_lookup
from kbroker.log.partition.deleted_segments import SegmentRenaming
from kbroker.log.partition.local_log import LocalLog
from kbroker.log.partition.log_state import PendingFlush
from kbroker.log.partition.segment_roll import roll_at
from kbroker.log.partition.time_lookup import TimedBatch
from kbroker.log.producers.log_append_info import AppendOrigin, LogAppendInfo
from kbroker.log.producers.snapshot_writing import AT_ONCE, SnapshotWriting
from kbroker.log.segments.fetch_data_info import FetchDataInfo, FetchIsolation, TimestampAndOffset
from kbroker.log.segments.log_segment import LogSegment


class Log(LocalLog):
    """One partition's log, as the broker uses it."""

    append_as_leader = log_write.append_as_leader

    def prepare_append(
        self, records: memoryview | bytearray, leader_epoch: int, now_ms: int, origin: AppendOrigin
    ) -> Preparation:
        """Return the work that a worker thread has to do before `append_prepared`."""
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
        self,
        records: memoryview | bytearray | bytes,
        now_ms: int = 0,
        leader_start_offset: int = 0,
    ) -> LogAppendInfo:
        """Append what the leader sent, offsets and epochs as they are; a batch that is cut off at
        the end is left out. A log that is empty, or of which the leader has deleted everything,
        starts over with the first batch where that holds the offset at which it ends.

        KafkaError: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE (they do not rise), KAFKA_STORAGE_ERROR.
        """
        return log_write.append_as_follower(self, records, now_ms, leader_start_offset)

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

    def batch_at_time(self, timestamp_ms: int, starting_offset: int) -> TimedBatch | None:
        """The first batch with offsets from there on that mentions a record at or after a time.
        KafkaError(KAFKA_STORAGE_ERROR).
        """
        try:
            return time_lookup.next_timed_batch(self, timestamp_ms, starting_offset)
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

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """As `LocalLog.truncate_to`, and go on in another file: a power loss may give the cut file
        back what it had there, amid what comes, and nobody could tell the two apart.
        """
        is_cut = super().truncate_to(offset, now_ms)
        if is_cut and self.segments.active.size_bytes:
            try:
                self._rolled_where_there_is_room(now_ms)
            except StorageError as error:
                raise self.failed(error) from error
        return is_cut

    def roll(self, now_ms: int) -> LogSegment:
        """Close the active segment, if it holds anything, and start one at the log end."""
        try:
            return roll_at(self, self.log_end_offset, now_ms)
        except StorageError as error:
            raise self.failed(error) from error

    def begin_flush(
        self, up_to_offset: int | None = None, *, and_closed: bool = False
    ) -> PendingFlush | None:
        """Return the syncs that bring all below `up_to_offset` (None: log end) to the disk, if any;
        `and_closed`: also where only files of closed segments wait for it.
        """
        return log_flush.begin(self, up_to_offset, and_closed=and_closed)

    def complete_flush(self, flush: PendingFlush, now_ms: int = 0) -> None:
        """All of `flush` has been synced: recovery may start after its records."""
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
        """Move the log start past what is beyond retention; True where segments are before it."""
        try:
            return log_retention.expire(self, now_ms, self._rolled_where_there_is_room)
        except StorageError as error:
            raise self.failed(error) from error

    def let_go_of_expired(self, limit: int, now_ms: int) -> SegmentRenaming:
        """Take out segments before the log start, oldest first; the caller renames their files."""
        remove_at_ms = now_ms + self.config.file_delete_delay_ms
        try:
            return self.files.let_go(log_retention.before_start(self)[:limit], remove_at_ms)
        except StorageError as error:
            raise self.failed(error) from error

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
        self.leader_epoch_cache.store_in(EpochFile(self.environment.file_system, directory))

    def copy_producers(self, log: Log) -> Iterator[None]:
        """Write down very many producers of a log that this one has caught up with, in steps:
        `become_copy_of` has less to do then. Without them, as on a full disk, it does all.
        """
        if len(log.producer_state.producers) <= AT_ONCE:
            return
        self._drop_snapshot()  # by the records that were copied, which tell of fewer
        offset = self._last_snapshot_offset = log.log_end_offset
        writing = self._snapshot = SnapshotWriting(log.producer_state, self.snapshots, offset)
        try:
            yield from self._snapshot_steps(writing)
        finally:
            writing.drop()

    def become_copy_of(self, log: Log) -> None:
        """Note what the records that were copied do not tell: epochs without any, producers whose
        records are gone, how far it is committed. StorageError, KafkaError(KAFKA_STORAGE_ERROR).
        """
        if log.topic_id is not None:  # told since the copy was begun
            self.assign_topic_id(log.topic_id)
        self.leader_epoch_cache.replace(log.leader_epoch_cache.entries)
        self.update_high_watermark(log.high_watermark)
        self.maybe_increment_log_start_offset(log.log_start_offset)
        if not self._has_producers_of(log):
            self._drop_snapshot()
            producers = log.producer_state.producers.values()
            self._note_snapshot(self.snapshots.write(self.log_end_offset, producers))
            self._last_snapshot_offset = self.log_end_offset

    def take_place_of(self, log: Log) -> None:
        """Go on as that log, whose copy this one has become."""
        self.producer_state = log.producer_state
        self.cleaned_end_offset = log.cleaned_end_offset
        log.successor = self, self.cuts

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        """Note that this epoch writes from the log end on; KafkaError(KAFKA_STORAGE_ERROR)."""
        self.environment.on_gapless(self.directory, self.topic_partition, self.log_end_offset)
        try:
            self.assign_epoch(leader_epoch, self.log_end_offset)
        except KafkaError:
            if self.failure is not None:  # else it does not fit: its first append notes it
                raise

    def _has_producers_of(self, log: Log) -> bool:
        """Whether the newest snapshot is one of `copy_producers`: the records after it tell what
        came since.
        """
        writing = self._snapshot
        return (
            writing is not None
            and writing.is_written
            and writing.state is log.producer_state
            and writing.offset == self._last_snapshot_offset
        )

    def _rolled_where_there_is_room(self, now_ms: int) -> bool:
        """Start an empty segment at the log end, unless there is one; False: no room."""
        try:
            return bool(roll_at(self, self.log_end_offset, now_ms))
        except StorageError as error:
            if not error.is_passing:
                raise
            return False
