"""The segments, bounds and state of one log, and what changes all of them together: cuts, a moved
start, a disk that refuses. Kafka calls it LocalLog, too; here producers and epochs are part of it,
for they are cut with the segments.

Law: after each change segments, offsets, leader epochs and producer state agree. A cut counts from
the moment it is begun, for replicas compare where their logs end; what the disk refuses of it is
completed before anything else is written: a half-done cut would mix old records with new ones.

Owned by the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.append_rules import AppendRules
from kbroker.log.disk.checkpoint import Cut
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log_state import LogEnvironment, LogState
from kbroker.log.partition.segment_store import SegmentStore
from kbroker.log.producers.producer_replay import Expiry, rewind
from kbroker.log.producers.snapshot_writing import AT_ONCE, SnapshotWriting
from kbroker.model import TopicPartition
from kbroker.record.record_batch import MAGIC

_log = logging.getLogger(__name__)


class LocalLog:
    """What a `Log` is made of; `log_start_offset` is inclusive, all other bounds are exclusive."""

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
        # Up to where a copy on another disk has these records, while it is being made.
        self.copied_up_to: int | None = None
        # (the copy that took this log's place, how often that had been cut until then)
        self.successor: tuple[LocalLog, int] | None = None
        self.environment = environment
        self._last_snapshot_offset = state.last_snapshot_offset
        self._snapshot: SnapshotWriting | None = None  # that is under way, or was
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

    def is_continued_in(self, log: LocalLog, cuts: int) -> bool:
        """Whether `log` has the records that this one had after `cuts` cuts: it is this one, or has
        taken its place on another disk.
        """
        here: LocalLog = self
        while here.cuts == cuts:
            if here is log:
                return True
            if here.successor is None:
                return False
            here, cuts = here.successor
        return False

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

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Cut the log so that it ends at `offset`; False when it already ends there or earlier."""
        if self.unfinished_cut is not None:
            offset = min(offset, self.unfinished_cut)
        elif offset >= self.log_end_offset:
            self._forget_epochs_without_records()
            return False
        is_empty = self.log_start_offset == self.log_end_offset == offset  # an unfinished start
        if is_empty or self.segments[0].base_offset > offset or self.files.is_empty_at(offset):
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        try:
            self.cut_at(offset, now_ms)
        except StorageError as error:
            raise self.failed(error) from error
        return True

    def _forget_epochs_without_records(self) -> None:
        """A leader that appended nothing has left an epoch at the log end: where another one leads
        now, it would look like records that the new leader lacks (KAFKA-10706).
        """
        try:
            self.leader_epoch_cache.truncate_from_end(self.log_end_offset)
        except StorageError as error:
            raise self.failed(error) from error

    def cut_at(self, offset: int, now_ms: int) -> None:
        """Drop the batch that holds `offset`, where there is one, and all after it. StorageError:
        the log ends there all the same, and the next append or truncation begins with the files.

        No first segment may come after `offset`.
        """
        self.unfinished_cut = offset
        self._end_at(min(offset, self.log_end_offset))
        self._before_cut(self.files.planned_cut(offset, self.log_start_offset))
        self._end_at(self.files.truncate_to(offset, now_ms))
        self._cut_state(now_ms)
        self.unfinished_cut = None

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Drop everything; the log is empty and starts and ends at `offset`, and where the disk
        refuses, its files are before anything else is written. KafkaError(KAFKA_STORAGE_ERROR).
        """
        try:
            self._before_cut(Cut(offset, self.log_start_offset, offset))
            self._empty_at(offset, now_ms)
        except StorageError as error:
            raise self.failed(error) from error

    def _empty_at(self, offset: int, now_ms: int) -> None:
        self.unfinished_cut = offset
        self.log_start_offset = self.log_end_offset = self.high_watermark = offset
        self._note_cut(offset)
        self._drop_snapshot()
        self.leader_epoch_cache.clear()
        self.producer_state.clear(offset)
        self._last_snapshot_offset = offset
        self.files.truncate_fully(offset, now_ms)
        self.environment.on_gapless(self.directory, self.topic_partition, offset)
        self.snapshots.delete_outside(offset, offset)
        # Before there are records below the start that it had.
        self._before_cut(Cut(offset, offset, offset))
        self.files.activate()
        self.unfinished_cut = None

    def finish_cut(self) -> None:
        """End a truncation that came to no end. Always raises KafkaError(KAFKA_STORAGE_ERROR): what
        was looked up before is of no use any more.
        """
        assert self.unfinished_cut is not None
        self.truncate_to(self.unfinished_cut)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The log was cut just now: try again")

    def expect_gaps(self, below: int | None = None) -> None:
        """Note durably that offsets `below` one will be missing; on any thread. StorageError."""
        self.environment.before_gap(self.directory, self.topic_partition, below)

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Note that this epoch writes from `start_offset` on. KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            self.leader_epoch_cache.assign(leader_epoch, start_offset)
        except StorageError as error:
            raise self.failed(error) from error

    def take_snapshot(self) -> None:
        """Write the producer state down, if the log has grown since the last time."""
        writing = self._snapshot
        while writing is not None and not writing.is_over:
            self._note_snapshot(writing.step())
        end_offset = self.producer_state.map_end_offset
        if end_offset > self._last_snapshot_offset:
            producers = self.producer_state.producers.values()
            self._note_snapshot(self.snapshots.write(end_offset, producers))
            self._last_snapshot_offset = end_offset

    def begin_snapshot(self) -> None:
        """The same; in steps, which go on later, where there are many producers. StorageError."""
        if len(self.producer_state.producers) <= AT_ONCE:
            self.take_snapshot()
            return
        end_offset = self.producer_state.map_end_offset
        if end_offset > self._last_snapshot_offset:
            self._drop_snapshot()
            self._last_snapshot_offset = end_offset
            self._snapshot = SnapshotWriting(self.producer_state, self.snapshots, end_offset)
            self.environment.in_turn(self._snapshot_steps(self._snapshot))

    def _snapshot_steps(self, writing: SnapshotWriting) -> Iterator[None]:
        try:
            while not writing.is_over:
                if self.is_deleted or self.failure is not None:
                    writing.drop()
                    return
                self._note_snapshot(writing.step())
                yield
        except StorageError as error:
            self.failed(error)

    def _note_snapshot(self, path: str | None) -> None:
        if path is not None:
            self.files.unsynced.snapshot = path
            self.files.unsynced.names_changed()

    def _drop_snapshot(self) -> None:
        """Leave one unwritten that is under way."""
        if self._snapshot is not None:
            self._snapshot.drop()
            self._snapshot = None

    def failed(self, error: StorageError) -> KafkaError:
        """Note what the disk has refused; the error to answer with."""
        if error.is_out_of_space:
            self.environment.on_full(self.directory, error, 0)
        if self.failure is None and not error.is_passing:
            self.failure = error
            _log.error("Log of %s failed: %s", self.topic_partition, error)
            self.environment.on_failure(self.directory, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def _set_recovery_point(self, offset: int) -> None:
        self.recovery_point = offset
        self.flush_due_offset = offset + self.config.flush_messages

    def _end_at(self, end_offset: int) -> None:
        """Let the log end there before its files do: nobody may be told of records that go, elect
        this log for them, or copy them.
        """
        self.log_end_offset = end_offset
        self._note_cut(end_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.leader_epoch_cache.truncate_from_end(end_offset)

    def _note_cut(self, end_offset: int) -> None:
        self.cuts += 1
        if self._snapshot is not None and self._snapshot.offset > end_offset:
            self._drop_snapshot()
        if self.copied_up_to is not None:
            self.copied_up_to = min(self.copied_up_to, end_offset)
        self._set_recovery_point(min(self.recovery_point, end_offset))
        if self.cleaned_end_offset is not None:
            self.cleaned_end_offset = min(self.cleaned_end_offset, end_offset)

    def _before_cut(self, cut: Cut) -> None:
        self.environment.before_cut(self.directory, self.topic_partition, cut)

    def _cut_state(self, now_ms: int) -> None:
        """Bring what is derived from the records to the end that the files have now."""
        end_offset = self.log_end_offset
        # Appends to come leave no gap, or say so before.
        self.environment.on_gapless(self.directory, self.topic_partition, end_offset)
        self.snapshots.delete_outside(0, end_offset)
        state = self.producer_state
        self._last_snapshot_offset = rewind(
            state,
            self.snapshots,
            self.segments,
            Expiry(now_ms, self.environment.producer_id_expiration_ms()),
            start_offset=self.log_start_offset,
            end_offset=end_offset,
        )
        state.on_high_watermark(self.high_watermark)
