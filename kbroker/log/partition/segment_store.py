"""The files of one log: which segments it has, which one takes the appends, which ones wait for
removal.

Law: a log has at least one segment, and only the last is written to. Files that were taken out
stay, renamed, for file.delete.delay.ms, because answers under way still read them. Every method may
raise StorageError. Owned by its log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbroker.config.topic_config import TopicConfig
from kbroker.log.disk.checkpoint import LogCut
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import CLEANED_SUFFIX, SWAP_SUFFIX
from kbroker.log.partition.deleted_segments import DeletedSegments, SegmentRenaming
from kbroker.log.partition.log_state import PendingFlush, segment_config
from kbroker.log.producers.producer_snapshot import ProducerSnapshots
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.log_segments import LogSegments
from kbroker.log.segments.segment_swap import SegmentSwap
from kbroker.log.segments.unsynced_files import UnsyncedFiles


class SegmentStore:
    """The segments of a log with the producer snapshots beside them."""

    __slots__ = (
        "_doomed",
        "_draw_jitter",
        "_file_system",
        "_jitter_ms",
        "_leaving",
        "_segment_config",
        "directory",
        "is_active_open",
        "segments",
        "snapshots",
        "swaps",
        "unsynced",
    )

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        segments: LogSegments,
        draw_jitter: Callable[[int], int],
    ) -> None:
        self.directory = directory
        self.segments = segments
        self.snapshots = ProducerSnapshots(file_system, directory)
        self.is_active_open = False  # idle logs hold no descriptor
        self.unsynced = UnsyncedFiles()
        self.swaps: list[SegmentSwap] = []  # staged, and not in force yet
        self._file_system = file_system
        self._draw_jitter = draw_jitter
        self._doomed = DeletedSegments()
        self._jitter_ms = 0
        self._leaving: tuple[SegmentRenaming, ...] = ()  # their files may have their old names

    def update_config(self, config: TopicConfig) -> None:
        """Use new topic settings from the next append on."""
        self._jitter_ms = config.segment_jitter_ms
        self._segment_config = segment_config(config)
        for segment in self.segments:
            segment.use(self._segment_config)

    def activate(self) -> None:
        """Open the last segment for appends. Its file may be made only now: a power loss has taken
        it, or there was no room.
        """
        active = self.segments.active
        if not self._file_system.exists(active.records.path):
            self.unsynced.names_changed()
        active.activate()
        self.is_active_open = True

    def add(self, base_offset: int, now_ms: int) -> LogSegment:
        """Start a segment, to which appends go from now on."""
        segment = self._new_segment(base_offset, now_ms)
        try:
            segment.activate()
        except StorageError:
            # A segment that is not in use would be taken for the end of the log at the next start.
            segment.delete()
            raise
        self.unsynced.names_changed()
        self.is_active_open = True
        self.segments.add(segment)
        return segment

    def _new_segment(self, base_offset: int, now_ms: int) -> LogSegment:
        segment = LogSegment(
            self._file_system, self.directory, base_offset, self._segment_config, created_ms=now_ms
        )
        if self._jitter_ms:
            segment.roll_earlier_by(self._draw_jitter(self._jitter_ms))
        return segment

    def roll(self, base_offset: int, now_ms: int) -> LogSegment:
        """Give the active segment's files their final size and start the next segment."""
        active = self.segments.active
        active.become_inactive()
        active.records.close()
        self.is_active_open = False
        added = self.add(base_offset, now_ms)
        self.unsynced.closed([active])
        return added

    def take_out(self, doomed: list[LogSegment], remove_at_ms: int | None) -> None:
        """Rename the files of segments away, in this order also after a power loss: loading must
        not find a gap between those that are back. `remove_at_ms` as in `DeletedSegments.add`.
        """
        self._cancel_swaps()
        self.unsynced.segments_removed()
        for segment in doomed:
            self.snapshots.delete(segment.base_offset)
            self._doomed.add(segment, remove_at_ms)
            self.segments.remove(segment)
            self.unsynced.gone(segment)
            self._file_system.sync_directory(self.directory)

    def let_go(self, doomed: list[LogSegment], remove_at_ms: int) -> SegmentRenaming:
        """Take segments out, the oldest of all, before their files are renamed away."""
        self._cancel_swaps()
        self.unsynced.segments_leave()
        for segment in doomed:
            self.segments.remove(segment)
            self.unsynced.gone(segment)
            self._doomed.add_unnamed(segment, remove_at_ms)
        renaming = SegmentRenaming(self._file_system, self.snapshots, doomed, self._left)
        self._leaving = (*self._leaving, renaming)
        return renaming

    def _left(self, renaming: SegmentRenaming) -> None:
        self._leaving = tuple(each for each in self._leaving if each is not renaming)
        self.unsynced.segments_left()

    def _cancel_swaps(self) -> None:
        """Cancel all swaps: segments that are taken out may be part of any."""
        for swap in list(self.swaps):
            swap.cancel()

    def begin_swap(self, base_offset: int, source_offsets: Sequence[int]) -> SegmentSwap | None:
        """The swap of the `.cleaned` segment at `base_offset` for the segments at these offsets;
        None if the log does not have them any more.
        """
        found = {segment.base_offset: segment for segment in self.segments}
        sources = [found[offset] for offset in source_offsets if offset in found]
        if len(sources) < len(source_offsets) or self.segments.active in sources:
            return None
        cleaned = LogSegment(
            self._file_system,
            self.directory,
            base_offset,
            self._segment_config,
            created_ms=sources[0].created_ms,
            suffix=CLEANED_SUFFIX,
        )
        return SegmentSwap(self._file_system, self, sources, cleaned)

    def replace(self, sources: list[LogSegment], cleaned: LogSegment, remove_at_ms: int) -> None:
        """Let `cleaned`, which is on the disk, stand for `sources`, whose files go later, even if
        the disk refuses to rename those.
        """
        self.unsynced.names_changed()
        for segment in sources:
            self.segments.remove(segment)
            self.unsynced.gone(segment)
        self.segments.add(cleaned)
        for segment in sources:
            if segment.base_offset != cleaned.base_offset:
                self.snapshots.delete(segment.base_offset)
            self._doomed.add(segment, remove_at_ms)

    @property
    def has_unfinished_swap(self) -> bool:
        """A cleaned segment is in use under the name that says it is about to be."""
        return any(s.records.path.endswith(SWAP_SUFFIX) for s in self.segments)

    def take_due(self, now_ms: int, delay_ms: int) -> list[str]:
        return self._doomed.take_due(now_ms, delay_ms)

    def planned_cut(self, offset: int, log_start_offset: int) -> LogCut:
        """Return what `truncate_to` will leave. Its safe offset is below the log's end, because a
        loss of power may leave the segment that is cut longer than that.
        """
        segment = self.segments[self.segments.floor_index(offset)]
        end_offset = segment.base_offset
        indexed_offset, _ = segment.offset_index.lookup(offset - 1)
        for _, header in segment.sound_headers(indexed_offset):
            if header.last_offset >= offset:
                break
            end_offset = header.next_offset
        safe_offset = max(segment.base_offset, end_offset - 1)
        return LogCut(end_offset, min(log_start_offset, end_offset), safe_offset)

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Drop the batch that holds `offset`, which no first segment may come after, and all after
        it; the offset at which the log ends now.
        """
        self.take_out([s for s in reversed(list(self.segments)) if s.base_offset > offset], None)
        active = self.segments.active
        self.unsynced.gone(active)  # it takes appends again
        active.truncate_to(offset, now_ms)
        if not active.size_bytes:  # as `Log.truncate_to`, and there is no other name for a file
            self._file_system.sync(active.records.path)
        self.is_active_open = True
        return active.next_offset

    def truncate_fully(self, offset: int, now_ms: int) -> None:
        """Drop everything, the newest first, and put an empty segment at `offset`, if one may
        just have left. Its files are made by `activate`: it is there even if there is no room.
        """
        for renaming in self._leaving:
            renaming.settle()
        doomed = list(reversed(list(self.segments)))
        try:
            self.take_out([s for s in doomed if s.base_offset != offset], None)
            for segment in doomed:
                if segment.base_offset == offset:
                    segment.delete()
                    self.segments.remove(segment)
                    self.unsynced.gone(segment)
                    self._file_system.sync_directory(self.directory)
        finally:
            if not self.segments:
                self.segments.add(self._new_segment(offset, now_ms))
                self.unsynced.names_changed()
                self.is_active_open = False

    def is_empty_at(self, offset: int) -> bool:
        return self.segments.base_offsets == [offset] and not self.segments.active.size_bytes

    def begin_flush(
        self, *, start_offset: int, end_offset: int, epochs: int, cuts: int
    ) -> PendingFlush:
        """Return the syncs that bring all from `start_offset` to `end_offset` (exclusive) to the
        disk; `epochs` counts the changes of the leader epochs, `cuts` those of the log's end.
        """
        segments = self.segments.between(start_offset, end_offset)
        files, directories, marks = self.unsynced.gather(self.directory, segments, epochs)
        return PendingFlush(self._file_system, files, directories, end_offset, marks, cuts)

    def close(self) -> None:
        """Give the active segment's files their final size; nothing is synced."""
        if self.is_active_open:
            self.segments.active.close()
            self.unsynced.closed([self.segments.active])
            self.is_active_open = False

    def close_files(self) -> None:
        """Give all descriptors back; the next use opens the files again."""
        for segment in self.segments:
            segment.records.close()
        self._doomed.close()

    def move_to(self, directory: str) -> None:
        """Follow a rename of the partition's directory: descriptors go back, paths change."""
        self.close_files()
        self.segments.move(self.directory, directory)
        self._doomed.move(self.directory, directory)
        self.directory = directory
        self.snapshots.move_to(directory)
        self.unsynced.place_changed()
