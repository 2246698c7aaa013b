"""The disk of a simulated machine: it outlives processes, may lose power, and gets into trouble.

Law: a process that is killed leaves all it has written; a machine that loses power leaves an image,
in which nothing is certain but what was synced (`RecordingFileSystem`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from kbroker.log.directories.failed_sync import NOTE_FILE
from kbroker.log.disk.file_system import StorageError
from tests.fakes.disks.memory_file_system import MTIME_MS
from tests.fakes.disks.recording_file_system import RecordingFileSystem

_GROWS = frozenset({"write", "create"})


class PowerDisk(RecordingFileSystem):
    """Fulfils `FileSystem`. Directories in `failed` refuse every change; those in `unsyncable`
    refuse to be synced, once; while `is_full`, nothing grows.
    """

    def __init__(
        self, *, capacity_bytes: int = 1 << 40, now_ms: Callable[[], int] = lambda: MTIME_MS
    ) -> None:
        self.failed: set[str] = set()
        self.unsyncable: set[str] = set()
        self.is_full = False
        super().__init__(capacity_bytes=capacity_bytes, now_ms=now_ms)
        self.before_change = self._check

    def let_go(self) -> None:
        """The process that held its locks is no more."""
        for _, node in self.files():
            node.is_locked = False

    def repair(self) -> None:
        """All troubles are over."""
        self.failed.clear()
        self.unsyncable.clear()
        self.is_full = False

    def _check(self, operation: str, path: str) -> None:
        if not (self.failed or self.unsyncable or self.is_full):
            return  # most of the time
        # One that refuses the note as well has lost its cache when it is back, which is not shown here.
        if _below(path, self.failed) and not path.endswith(NOTE_FILE):
            raise StorageError(path, operation, errno.EIO)
        if operation == "fsync" and (found := _below(path, self.unsyncable)):
            self.unsyncable.discard(found)
            raise StorageError(path, operation, errno.EIO)
        if self.is_full and operation in _GROWS:
            raise StorageError(path, operation, errno.ENOSPC)


def _below(path: str, directories: set[str]) -> str | None:
    for directory in sorted(directories):
        if path.startswith(f"{directory}/"):
            return directory
    return None
