"""The embedded tree's files in a data directory, through the same door to the disk as logs.

Law: when the directory fails, its tree takes no more changes, and a failure of the tree's files is
one of the directory: nothing is written after a sync that failed, since nobody knows what is on the
disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kbroker.log.disk.file_system import File, FileSystem, StorageError
from kbroker.zk.embedded.tree_journal import JOURNAL_NAME, SNAPSHOT_NAME

_PREFIX = "kbroker-"  # which no partition directory and no file of Kafka has
TREE_FILES = tuple(f"{_PREFIX}{name}" for name in (JOURNAL_NAME, SNAPSHOT_NAME))


class TreeDirectory:
    """Implements the tree's TreeFiles; the names get a prefix that no partition directory has."""

    def __init__(self, file_system: FileSystem, directory: str) -> None:
        self._file_system = file_system
        self._directory = directory
        self._refusal: StorageError | None = None
        self.on_failure: Callable[[StorageError], None] = lambda _: None

    def refuse(self, error: StorageError) -> None:
        """The directory has failed: every access fails with its error from now on."""
        self._refusal = self._refusal or error

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Around each access; the tree knows the system's errors, the log's files their own."""
        error = self._refusal
        if error is None:
            try:
                yield
            except StorageError as failure:
                error = failure
                if not failure.is_passing:
                    self.refuse(failure)
                    self.on_failure(failure)
        if error is not None:
            hint = ": free some space" if error.is_out_of_space else ""
            raise OSError(error.errno, f"{error}{hint}") from error

    def read(self, name: str) -> bytes | None:
        """The whole file, or None when there is none."""
        path = self._path(name)
        with self.guarded():
            return self._file_system.read_bytes(path) if self._file_system.exists(path) else None

    def open_append(self, name: str) -> TreeFile:
        """Open for appending, created when absent."""
        with self.guarded():
            return TreeFile(self, self._file_system.open(self._path(name), create=True))

    def rename(self, old: str, new: str) -> None:
        """Rename, replacing what is there."""
        with self.guarded():
            self._file_system.rename(self._path(old), self._path(new))

    def unlink(self, name: str) -> None:
        """Remove a file; nothing happens when it is absent."""
        with self.guarded():
            self._file_system.unlink(self._path(name))

    def fsync_directory(self) -> None:
        """Return when new names and renames are on the device."""
        with self.guarded():
            self._file_system.sync_directory(self._directory)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{_PREFIX}{name}"


class TreeFile:
    """Implements the tree's AppendFile."""

    def __init__(self, directory: TreeDirectory, file: File) -> None:
        self._directory = directory
        self._file = file
        self._end = file.size()

    def write(self, data: bytes) -> None:
        """Append all of `data`."""
        with self._directory.guarded():
            self._file.pwrite(data, self._end)
        self._end += len(data)

    def fsync(self) -> None:
        """Return when what was written is on the device."""
        with self._directory.guarded():
            self._file.sync()

    def truncate(self, size_bytes: int) -> None:
        """Cut the file; later writes append there."""
        with self._directory.guarded():
            self._file.truncate(size_bytes)
        self._end = size_bytes

    def close(self) -> None:
        self._file.close()
