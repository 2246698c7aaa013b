"""A file of a segment, known by its path.

The path is kept in two halves, the first of which all files of a segment share: paths are what
thousands of idle partitions consist of.
"""

from __future__ import annotations

from sys import intern


class SegmentPart:
    """What data file and indexes have in common."""

    __slots__ = ("_ending", "_stem")

    def __init__(self, path: str) -> None:
        self._stem = path
        self._ending = ""

    @property
    def path(self) -> str:
        """Where the file is, or will be."""
        return self._stem + self._ending

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
