"""The producers of one log: their state, the snapshots of it, and the one that is being written.

Law: state and snapshots say nothing of records that the log does not have. A snapshot of many
producers is written in steps; one that a cut overtakes is left unwritten.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log_offsets import LogOffsets
from kbroker.log.partition.partition_directory import PartitionDirectory
from kbroker.log.partition.segment_store import SegmentStore
from kbroker.log.producers.producer_replay import Expiry, rewind
from kbroker.log.producers.producer_state import ProducerStateManager
from kbroker.log.producers.snapshot_writing import AT_ONCE, SnapshotWriting


class LogProducers:
    """Owned by its log."""

    __slots__ = ("_directory", "_files", "_last_snapshot_offset", "_writing", "state")

    def __init__(
        self,
        directory: PartitionDirectory,
        files: SegmentStore,
        state: ProducerStateManager,
        last_snapshot_offset: int,
    ) -> None:
        self.state = state
        self._directory = directory
        self._files = files
        self._last_snapshot_offset = last_snapshot_offset
        self._writing: SnapshotWriting | None = None  # the one under way, or the last one

    def take_snapshot(self) -> None:
        """Write the state down if the log has grown since the last time. StorageError."""
        writing = self._writing
        while writing is not None and not writing.is_over:
            self._note(writing.step())
        if self.state.map_end_offset > self._last_snapshot_offset:
            self._write(self.state, self.state.map_end_offset)

    def begin_segment(self, base_offset: int) -> None:
        """Take the snapshot that belongs to a new segment; with many producers, in steps that go on
        after this returns. Raises StorageError.
        """
        state = self.state
        state.advance_to(base_offset)
        if len(state.producers) <= AT_ONCE:
            self.take_snapshot()
        elif base_offset > self._last_snapshot_offset:
            writing = self._begin(state, base_offset)
            self._directory.environment.in_turn(self._steps(writing))

    def start_raised_to(self, log_start_offset: int) -> None:
        """Forget what began before the log start, which has moved."""
        self.state.on_log_start_offset(log_start_offset)
        self._last_snapshot_offset = max(self._last_snapshot_offset, log_start_offset)

    def cut_begins_at(self, end_offset: int) -> None:
        """Write no snapshot that is beyond the end."""
        if self._writing is not None and self._writing.offset > end_offset:
            self._drop()

    def rewind(self, offsets: LogOffsets, now_ms: int) -> None:
        """Bring the state back to the end that the log and its files have now. StorageError."""
        files, end_offset = self._files, offsets.log_end_offset
        files.snapshots.delete_outside(0, end_offset)
        self._last_snapshot_offset = rewind(
            self.state,
            files.snapshots,
            files.segments,
            Expiry(now_ms, self._directory.environment.producer_id_expiration_ms()),
            start_offset=offsets.log_start_offset,
            end_offset=end_offset,
        )
        self.state.on_high_watermark(offsets.high_watermark)

    def begin_anew_at(self, offset: int) -> None:
        """Know nobody: the log is empty, and starts there."""
        self._drop()
        self.state.clear(offset)
        self._last_snapshot_offset = offset

    def copy(self, original: LogProducers, end_offset: int) -> Iterator[None]:
        """Write down very many producers of a log of which this one is a copy up to `end_offset`,
        in steps: `become_copy_of` has less to do then. Without them, as on a full disk, it does
        all.
        """
        if len(original.state.producers) <= AT_ONCE:
            return
        writing = self._begin(original.state, end_offset)
        try:
            yield from self._steps(writing)
        finally:
            writing.drop()

    def become_copy_of(self, original: LogProducers, end_offset: int) -> None:
        """Have a snapshot at the log end with the producers of the original, whose records may be
        gone. StorageError.
        """
        writing = self._writing  # of `copy`? The records after it tell what came since.
        if (
            writing is None
            or not writing.is_written
            or writing.state is not original.state
            or writing.offset != self._last_snapshot_offset
        ):
            self._drop()
            self._write(original.state, end_offset)

    def take_over(self, original: LogProducers) -> None:
        """Go on with the state of a log whose place this one takes."""
        self.state = original.state

    def _write(self, state: ProducerStateManager, offset: int) -> None:
        self._note(self._files.snapshots.write(offset, state.producers.values()))
        self._last_snapshot_offset = offset

    def _begin(self, state: ProducerStateManager, offset: int) -> SnapshotWriting:
        self._drop()
        self._last_snapshot_offset = offset
        self._writing = SnapshotWriting(state, self._files.snapshots, offset)
        return self._writing

    def _steps(self, writing: SnapshotWriting) -> Iterator[None]:
        directory = self._directory
        try:
            while not writing.is_over:
                if directory.is_deleted or directory.failure is not None:
                    writing.drop()
                    return
                self._note(writing.step())
                yield
        except StorageError as error:
            directory.failed(error)

    def _note(self, path: str | None) -> None:
        if path is not None:
            self._files.unsynced.snapshot_written(path)

    def _drop(self) -> None:
        if self._writing is not None:
            self._writing.drop()
            self._writing = None
