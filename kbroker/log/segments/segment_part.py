"""A file of a segment, known by its path.

The path is kept in two halves, the first of which all files of a segment share: paths are what
thousands of idle partitions consist of.
"""

from __future__ import annotations

from sys import intern

from kbroker.log.disk.file_system import FileSystem


class SegmentPart:
    """The common part of data file and indexes."""

    __slots__ = ("_ending", "_file_system", "_stem")

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self._file_system = file_system
        self._stem = path
        self._ending = ""

    @property
    def path(self) -> str:
        return self._stem + self._ending

    def sync(self) -> None:
        """Bring what was written to the disk, if there is a file; may run on a worker thread."""
        if self._file_system.exists(self.path):
            self._file_system.sync(self.path)

    def delete(self) -> None:
        """Remove the file if there is one."""
        self._file_system.unlink(self.path)

    def renamed(self, path: str) -> None:
        """Be elsewhere from now on."""
        self._stem = path
        self._ending = ""

    def share_stem(self, stem: str) -> None:
        """Keep what `path` begins with as that very object."""
        path = self.path
        assert path.startswith(stem), (path, stem)
        self._ending = intern(path[len(stem) :])
        self._stem = stem
