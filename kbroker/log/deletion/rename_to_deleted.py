"""The files of segments that have left their log get the names of what is to be removed.

Law: `rename` touches only files and so may run on any thread; whoever opens a file meanwhile finds
it under either name. It renames once: an owner that needs the old names at once calls `settle`, and
the thread then finds nothing to do. `finish` tells the segments, in their owner's thread, where
their files are, whatever became of the renames; a file that kept its name is removed under that
name.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from kbroker.log.file_system import FileSystem
from kbroker.log.format import DELETED_SUFFIX
from kbroker.log.log_segment import LogSegment
from kbroker.log.producers.producer_snapshot import ProducerSnapshots


class SegmentRenaming:
    """Of segments that were taken out together."""

    def __init__(
        self,
        file_system: FileSystem,
        snapshots: ProducerSnapshots,
        segments: list[LogSegment],
        left: Callable[[SegmentRenaming], None],
    ) -> None:
        """`left` is told when they are gone."""
        self._left = left
        self._lock = Lock()
        self._is_renamed = False
        self._file_system = file_system
        self._snapshots = snapshots
        self._bases = [segment.base_offset for segment in segments]
        self._parts = [part for segment in segments for part in segment.parts]
        self._paths = [part.path for part in self._parts]  # of now: the directory may be renamed

    def rename(self) -> None:
        """Away with the names, and with the producer snapshots. Raises StorageError."""
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
                part.path = path + DELETED_SUFFIX
