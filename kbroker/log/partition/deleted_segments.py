"""Segments that were taken out of a log, and when their files go.

Law: the files of a segment stay, renamed to `.deleted`, for file.delete.delay.ms, so that answers
under way can still be sent from them.

Law of the renames: they touch only files and so may run on any thread; whoever opens a file
meanwhile finds it under either name. A file is renamed once: an owner that needs the old names at
once calls `settle`, and the thread then finds nothing to do. `finish` lets the segments know, in
their owner's thread, where their files are, whatever became of the renames; a file that kept its
name is removed under that name.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import DELETED_SUFFIX
from kbroker.log.producers.producer_snapshot import ProducerSnapshots
from kbroker.log.segments.log_segment import LogSegment


class DeletedSegments:
    """The segments of one log that wait for removal. Owned by that log."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        # A tuple: that of most logs is empty, and shared by all of them.
        self._waiting: tuple[tuple[LogSegment, int | None], ...] = ()

    def add(self, segment: LogSegment, remove_at_ms: int | None) -> None:
        """Rename the segment's files now, for removal at that time; None: a delay from the next
        `take_due` on.
        """
        segment.mark_deleted()
        self.add_unnamed(segment, remove_at_ms)

    def add_unnamed(self, segment: LogSegment, remove_at_ms: int | None) -> None:
        """Wait for the removal of a segment whose files the caller renames."""
        self._waiting = (*self._waiting, (segment, remove_at_ms))

    def take_due(self, now_ms: int, delay_ms: int) -> list[str]:
        """The files whose time has come, for the caller to remove; nobody reads them any more."""
        if not self._waiting:
            return []
        waiting = [
            (segment, now_ms + delay_ms if at is None else at) for segment, at in self._waiting
        ]
        self._waiting = tuple((segment, at) for segment, at in waiting if at > now_ms)
        due = [segment for segment, at in waiting if at <= now_ms]
        for segment in due:
            segment.records.withdraw()
        return [part.path for segment in due for part in segment.parts]

    def close(self) -> None:
        """Give all descriptors back."""
        for segment, _ in self._waiting:
            segment.records.close()

    def move(self, old_directory: str, new_directory: str) -> None:
        """Follow a rename of the partition's directory; descriptors must have been given back."""
        for segment, _ in self._waiting:
            segment.move(old_directory, new_directory)


class SegmentRenaming:
    """The renaming of segments that were taken out together."""

    def __init__(
        self,
        file_system: FileSystem,
        snapshots: ProducerSnapshots,
        segments: list[LogSegment],
        left: Callable[[SegmentRenaming], None],
    ) -> None:
        """`left` is called when they are gone."""
        self._left = left
        self._lock = Lock()
        self._is_renamed = False
        self._file_system = file_system
        self._snapshots = snapshots
        self._bases = [segment.base_offset for segment in segments]
        self._parts = [part for segment in segments for part in segment.parts]
        self._paths = [part.path for part in self._parts]  # of now: the directory may be renamed

    def rename(self) -> None:
        """Rename the files, and remove the producer snapshots. Raises StorageError."""
        with self._lock:
            if self._is_renamed:
                return
            for base_offset in self._bases:
                self._snapshots.delete(base_offset)
            for path in self._paths:
                if self._file_system.exists(path):
                    self._file_system.rename(path, path + DELETED_SUFFIX)
            self._is_renamed = True

    def settle(self) -> None:
        """Have no file of them under its old name any more, nor looked for there. StorageError."""
        self.rename()
        self._tell()

    def finish(self) -> None:
        """All renames are done, or one of them failed."""
        self._tell()
        self._left(self)

    def _tell(self) -> None:
        for part, path in zip(self._parts, self._paths, strict=True):
            if part.path == path and self._file_system.exists(path + DELETED_SUFFIX):
                part.renamed(path + DELETED_SUFFIX)
