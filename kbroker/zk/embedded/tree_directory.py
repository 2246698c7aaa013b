"""The embedded tree's files in a data directory, through the same door to the disk as logs.

Law: when the directory fails, its tree takes no more changes; a failure of the tree's files counts
as one of the directory. Nothing is written after a failed sync, because nobody knows what is on the
disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kbroker.log.disk.file_system import File, FileSystem, StorageError
from kbroker.zk.embedded.tree_journal import (
    JOURNAL_NAME,
    SNAPSHOT_NAME,
    AppendFile,
    TreeFiles,
)

_PREFIX = "kbroker-"  # which no partition directory and no file of Kafka has
TREE_FILES = tuple(f"{_PREFIX}{name}" for name in (JOURNAL_NAME, SNAPSHOT_NAME))


class TreeDirectory(TreeFiles):
    """The tree's TreeFiles in a directory; names get a prefix that no partition directory has."""

    def __init__(self, file_system: FileSystem, directory: str) -> None:
        self._file_system = file_system
        self._directory = directory
        self._refusal: StorageError | None = None
        self.on_failure: Callable[[StorageError], None] = lambda _: None

    def refuse(self, error: StorageError) -> None:
        """Fail every access with this error from now on: the directory has failed."""
        self._refusal = self._refusal or error

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Guard an access: a StorageError becomes an OSError, which the tree knows."""
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
        path = self._path(name)
        with self.guarded():
            return self._file_system.read_bytes(path) if self._file_system.exists(path) else None

    def open_append(self, name: str) -> TreeFile:
        with self.guarded():
            return TreeFile(self, self._file_system.open(self._path(name), create=True))

    def rename(self, old: str, new: str) -> None:
        with self.guarded():
            self._file_system.rename(self._path(old), self._path(new))

    def unlink(self, name: str) -> None:
        with self.guarded():
            self._file_system.unlink(self._path(name))

    def fsync_directory(self) -> None:
        with self.guarded():
            self._file_system.sync_directory(self._directory)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{_PREFIX}{name}"


class TreeFile(AppendFile):
    """The tree's AppendFile, guarded by its directory."""

    def __init__(self, directory: TreeDirectory, file: File) -> None:
        self._directory = directory
        self._file = file
        self._end = file.size()

    def write(self, data: bytes) -> None:
        with self._directory.guarded():
            self._file.pwrite(data, self._end)
        self._end += len(data)

    def fsync(self) -> None:
        with self._directory.guarded():
            self._file.sync()

    def truncate(self, size_bytes: int) -> None:
        with self._directory.guarded():
            self._file.truncate(size_bytes)
        self._end = size_bytes

    def close(self) -> None:
        self._file.close()
