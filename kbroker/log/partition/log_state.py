"""Values of a log: what all logs of a broker share, what loading hands over, what a flush has to
sync.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from errno import ENOENT
from functools import lru_cache
from uuid import UUID

from kbroker.config.topic_config import TopicConfig
from kbroker.log.disk.checkpoint import LogCut
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import LOG_SUFFIX
from kbroker.log.partition.leader_epoch_cache import LeaderEpochCache
from kbroker.log.producers.producer_state import ProducerStateManager
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.log_segments import LogSegments
from kbroker.log.segments.segment_files import SegmentConfig
from kbroker.log.segments.unsynced_files import FlushMarks
from kbroker.model import TopicPartition


def work_off(steps: Iterator[None]) -> None:
    """Take all steps now."""
    for _ in steps:
        pass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LogEnvironment:
    """The world around the logs of a broker, which all of them share."""

    file_system: FileSystem
    producer_id_expiration_ms: Callable[[], int] = lambda: 86_400_000
    walks_records: bool = True  # kbroker.record.validation=full
    # (segment.jitter.ms) -> what is taken off this segment's age
    draw_jitter: Callable[[int], int] = lambda _: 0
    # (partition directory, error)
    on_failure: Callable[[str, StorageError], None] = lambda _, __: None
    # (partition directory, error, bytes that did not fit)
    on_full: Callable[[str, StorageError, int], None] = lambda _, __, ___: None
    # (partition directory, whose, the offset from which on it has no gap): opened, or led now
    on_gapless: Callable[[str, TopicPartition, int], None] = lambda _, __, ___: None
    # (as above): gaps are about to come into it, all below an offset if that is given; returns
    # when that is written down, raises StorageError
    before_gap: Callable[[str, TopicPartition, int | None], None] = lambda _, __, ___: None
    # (as above): it is about to begin a segment
    before_roll: Callable[[str, TopicPartition], None] = lambda _, __: None
    # (as above): it is about to be cut; as `before_gap`
    before_cut: Callable[[str, TopicPartition, LogCut], None] = lambda _, __, ___: None
    # (small steps of work that need not be done now)
    in_turn: Callable[[Iterator[None]], None] = work_off


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class LogState:
    """A log as its files say it is: what loading hands over."""

    segments: LogSegments
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    leader_epoch_cache: LeaderEpochCache
    producer_state: ProducerStateManager
    last_snapshot_offset: int
    gapless_from: int = 0  # no offset is missing between its batches from here on
    topic_id: UUID | None = None
    rebuilt: frozenset[int] = frozenset()  # base offsets of segments whose indexes were rebuilt

    def unsynced_segments(self) -> list[LogSegment]:
        """Segments that take no more appends, and may not be on the disk as they are."""
        if not self.rebuilt and self.recovery_point >= self.log_end_offset:
            return []
        unflushed = self.segments.from_offset(self.recovery_point)
        bases = self.rebuilt.union(segment.base_offset for segment in unflushed)
        return [s for s in list(self.segments)[:-1] if s.base_offset in bases]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PendingFlush:
    """The syncs that bring all records below `end_offset` to the disk. `sync` may run on a worker
    thread; its outcome goes to `LogFlush.complete` or `failed`.
    """

    file_system: FileSystem
    files: list[str]
    directories: list[str]
    end_offset: int
    marks: FlushMarks
    cuts: int  # how often the log had been cut when this began

    def sync(self) -> None:
        """Files first: a name is worth nothing before its content. Raises StorageError.

        Retention may take segments out meanwhile: what stays is synced all the same, so that what
        comes next can build on it.
        """
        missing = self.sync_files()
        for path in self.directories:
            self.file_system.sync_directory(path)
        if missing is not None:
            raise missing

    def sync_files(self) -> StorageError | None:
        """Sync all but the names; the error for a segment that is gone. Raises StorageError."""
        missing: StorageError | None = None
        for path in self.files:
            # Not every segment has each kind of index; all have records.
            if path.endswith(LOG_SUFFIX) or self.file_system.exists(path):
                try:
                    self.file_system.sync(path)
                except StorageError as error:
                    if error.errno != ENOENT:
                        raise
                    missing = error
        return missing


def segment_config(config: TopicConfig) -> SegmentConfig:
    """The part of a topic's settings that its segments use."""
    made = SegmentConfig(
        index_interval_bytes=config.index_interval_bytes,
        segment_index_bytes=config.segment_index_bytes,
        segment_bytes=config.segment_bytes,
        preallocate=config.preallocate,
    )
    return _shared(made)


@lru_cache(maxsize=256)
def _shared(config: SegmentConfig) -> SegmentConfig:
    """One object for all segments with the same settings."""
    return config
