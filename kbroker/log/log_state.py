"""What a log is made of: what all logs of a broker share, what loading hands over, what a flush has
to sync. Values only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from errno import ENOENT
from uuid import UUID

from kbroker.config.topic_config import TopicConfig
from kbroker.log.file_system import FileSystem, StorageError
from kbroker.log.format import LEADER_EPOCH_CHECKPOINT_FILE
from kbroker.log.leader_epoch_cache import LeaderEpochCache
from kbroker.log.log_segment import LogSegment, SegmentConfig
from kbroker.log.log_segments import LogSegments
from kbroker.log.producer_state import ProducerStateManager


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnvironment:
    """What all logs of a broker share."""

    file_system: FileSystem
    producer_id_expiration_ms: int = 86_400_000
    walks_records: bool = False  # kbroker.record.validation=full
    draw_jitter: Callable[[int], int] = lambda _: (
        0
    )  # (segment.jitter.ms) -> what is taken off this segment's age
    on_failure: Callable[[str, StorageError], None] = lambda _, __: (
        None
    )  # (partition directory, error)


@dataclass(slots=True, kw_only=True)
class LogState:
    """A log as its files say it is: what loading hands over."""

    segments: LogSegments
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    leader_epoch_cache: LeaderEpochCache
    producer_state: ProducerStateManager
    last_snapshot_offset: int
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class PendingFlush:
    """Segments to sync up to `end_offset`.

    `sync` may run on a worker thread; hand it to `Log.complete_flush` after.
    """

    file_system: FileSystem
    directory: str
    segments: list[LogSegment]
    end_offset: int

    def sync(self) -> None:
        """Fsync the segments, leader epochs and directory; what was taken out needs none."""
        try:
            self._sync()
        except StorageError as error:
            if error.errno != ENOENT:
                raise

    def _sync(self) -> None:
        for segment in self.segments:
            segment.sync()
        epochs = f"{self.directory}/{LEADER_EPOCH_CHECKPOINT_FILE}"
        if self.file_system.exists(epochs):
            self.file_system.sync(epochs)
        self.file_system.sync_directory(self.directory)


def segment_config(config: TopicConfig) -> SegmentConfig:
    """The part of a topic's settings that its segments use."""
    return SegmentConfig(
        index_interval_bytes=config.index_interval_bytes,
        segment_index_bytes=config.segment_index_bytes,
        segment_bytes=config.segment_bytes,
        preallocate=config.preallocate,
    )
