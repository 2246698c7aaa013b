"""The producer state of a log that is being opened: from the newest snapshot that can be right, and
the batches after it.

Law: a snapshot is trusted only if no recovery contradicts what it was made from, because a wrong
one would let duplicates in. What comes out agrees with the batches up to the log end, and the
snapshots that later loads need are there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kbroker.errors import KafkaError
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.producers.producer_replay import Expiry, load_snapshot, replay_segments
from kbroker.log.producers.producer_snapshot import ProducerSnapshots, snapshot_offsets
from kbroker.log.producers.producer_state import ProducerStateManager
from kbroker.log.producers.recent_batches import recall_batches
from kbroker.log.segments.log_segments import LogSegments
from kbroker.model import TopicPartition

_log = logging.getLogger(__name__)


class ProducerLoading:
    """Producers and snapshots of one log; used once, by its loader."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        segments: LogSegments,
        log_start_offset: int,
        expiry: Expiry,
    ) -> None:
        self.state = ProducerStateManager(topic_partition)
        self.last_snapshot_offset = 0
        self._has_recovered = False
        self._file_system = file_system
        self._directory = directory
        self._topic_partition = topic_partition
        self._snapshots = ProducerSnapshots(file_system, directory)
        self._segments = segments
        self._log_start_offset = log_start_offset
        self._expiry = expiry

    def begin_again(self) -> None:
        """Recover from the first segment on, whatever was recovered."""
        self._has_recovered = False

    def begin_segment(self, base_offset: int, *, was_clean: bool) -> None:
        """Bring the state to the start of a segment that is to be recovered."""
        if self._has_recovered and self.state.map_end_offset == base_offset:
            return
        if not self._has_recovered and not was_clean:
            # What snapshots beyond say comes from batches that may be gone: found out again.
            self._snapshots.delete_outside(0, base_offset)
        self._has_recovered = True
        start_offset = self._log_start_offset
        if start_offset > base_offset:
            # Whether the log comes as far is not known yet: if not, it starts with its first
            # segment, and so do its producers.
            start_offset = self._segments[0].base_offset
        self._load_up_to(base_offset, start_offset)
        self._replay_up_to(base_offset)
        if not was_clean:  # what a clean stop has written may go further back than the log
            self._write_snapshot(base_offset)

    def end_segment(self, *, was_clean: bool) -> None:
        """A segment was recovered, and its batches replayed into the state."""
        if not was_clean:
            self._write_snapshot(self.state.map_end_offset)
        # A snapshot that is read leaves expired producers out; so does one that was just made
        # again.
        self.state.remove_expired(*self._expiry)

    def removed(self, base_offset: int) -> None:
        """A segment is gone, with all after it."""
        self._snapshots.delete(base_offset)
        # If the log ends there now, it is written again.
        self.last_snapshot_offset = min(self.last_snapshot_offset, base_offset - 1)

    def finish(
        self, start_offset: int, end_offset: int, names: Sequence[str], *, was_clean: bool
    ) -> None:
        """Bring the state to the log end; keep the snapshots that later loads can use. `names` are
        those in the directory before any recovery.
        """
        bases = self._segments.base_offsets
        if self._has_recovered:
            names = self._file_system.list(self._directory)
        offsets = snapshot_offsets(names)
        newest = max((o for o in offsets if o <= end_offset), default=-1)
        for offset in offsets:
            is_base = offset in bases and start_offset < offset <= end_offset
            if not is_base and (offset != newest or offset <= start_offset):
                self._snapshots.delete(offset)
        is_bare = not self._has_recovered and not any(o in bases or o > bases[-1] for o in offsets)
        if was_clean and is_bare:
            # No snapshot at a clean stop: the log was written by a version without producers, or
            # they were deleted. Empty ones where a later load may begin save it the whole log.
            for offset in (*bases[-2:], end_offset):
                self.state.clear(offset)
                self._write_snapshot(offset)
            return
        # Recovery leaves more in memory (five batches a producer) than its snapshot holds (one).
        # After a clean stop the snapshot also knows producers from below the log start.
        if was_clean or self.state.map_end_offset != end_offset:
            self._load_newest(newest, start_offset, end_offset)
        else:
            self.state.on_log_start_offset(start_offset)
        self._replay_up_to(end_offset)
        self._write_snapshot(end_offset)

    def _load_newest(self, newest: int, start_offset: int, end_offset: int) -> None:
        if newest <= start_offset:
            self.state.clear(start_offset)
            self.last_snapshot_offset = self.state.map_end_offset
        else:
            self._load_up_to(end_offset, start_offset)

    def _load_up_to(self, offset: int, start_offset: int) -> None:
        load_snapshot(
            self.state, self._snapshots, self._expiry, start_offset=start_offset, end_offset=offset
        )
        self.last_snapshot_offset = end_offset = self.state.map_end_offset
        covered = self._segments.between(start_offset, end_offset) if len(self._segments) else ()
        recall_batches(self.state, covered, self._expiry.now_ms)

    def _replay_up_to(self, offset: int) -> None:
        state = self.state
        if state.map_end_offset < offset and len(self._segments):
            segments = self._segments.between(state.map_end_offset, offset)
            try:
                replay_segments(state, segments, offset)
            except KafkaError as error:
                _log.warning("Producer state of %s is incomplete: %s", self._topic_partition, error)
        state.advance_to(offset)

    def _write_snapshot(self, offset: int) -> None:
        if offset > self.last_snapshot_offset:
            try:
                self._snapshots.write(offset, self.state.producers.values())
            except StorageError as error:
                if not error.is_out_of_space:
                    raise
                _log.warning(
                    "A producer snapshot does not match its log, which is read without it: %s",
                    error,
                )
                return
            self.last_snapshot_offset = offset
