"""A disk that fails when it is told to: around any other file system.

    disk = FailingFileSystem(MemoryFileSystem())
    disk.fail("fsync", "*.log", at=3)                        the third fsync of a data file: EIO
    disk.fail("write", number=errno.ENOSPC, times=None)      no space, until `heal`
    disk.fail("write", "*/t-0/*.log", after_bytes=10)        a short write, then the error
    disk.delay("fsync", seconds=0.2)                         a slow disk

Operations are named as in StorageError: open, read, write, truncate, stat, fsync, close, map, list,
create directory, rename, remove, stat volume, lock. A path matches a pattern of fnmatch; a rename
matches by its source. Calls are counted from when the fault was set, from 1.
"""

from __future__ import annotations

import errno
import threading
import time
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from kbroker.log.disk.file_system import (
    Bytes,
    File,
    FileLock,
    FileSystem,
    MappedFile,
    StorageError,
)


@dataclass
class Fault:
    """What happens to the calls of one operation on some paths."""

    operation: str
    pattern: str
    number: int  # errno; 0: no error
    at: int  # the first call that fails
    times: int | None  # so many calls fail, None: all from then on
    after_bytes: int | None  # of a write, these many get through
    seconds: float
    calls: int = 0
    hits: list[str] = field(default_factory=list)  # the paths it struck

    def strikes(self, operation: str, path: str) -> bool:
        if self.operation not in (operation, "*") or not fnmatchcase(path, self.pattern):
            return False
        self.calls += 1
        behind = self.calls - self.at
        if behind < 0 or (self.times is not None and behind >= self.times):
            return False
        self.hits.append(path)
        return True


class FailingFileSystem:
    """Fulfils `FileSystem`. May be used from several threads."""

    def __init__(self, inner: FileSystem) -> None:
        self.inner = inner
        self.log: list[tuple[str, str]] | None = None  # set to [] to note (operation, path)
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def fail(
        self,
        operation: str,
        pattern: str = "*",
        *,
        number: int = errno.EIO,
        at: int = 1,
        times: int | None = 1,
        after_bytes: int | None = None,
    ) -> Fault:
        """Let the call number `at`, and `times - 1` more, end with this error."""
        fault = Fault(operation, pattern, number, at, times, after_bytes, 0.0)
        self._faults.append(fault)
        return fault

    def delay(self, operation: str, pattern: str = "*", *, seconds: float) -> Fault:
        """Let every such call take this long."""
        fault = Fault(operation, pattern, 0, 1, None, None, seconds)
        self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """Work again."""
        self._faults.clear()

    def check(self, operation: str, path: str) -> Fault | None:
        """Raise, wait, or hand back the fault of a short write."""
        with self._lock:
            if self.log is not None:
                self.log.append((operation, path))
            struck = [fault for fault in self._faults if fault.strikes(operation, path)]
        for fault in struck:
            if fault.seconds:
                time.sleep(fault.seconds)
            if fault.number and fault.after_bytes is not None:
                return fault
            if fault.number:
                raise StorageError(path, operation, fault.number)
        return None

    # FileSystem

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        self.check("open", path)
        return FailingFile(self, self.inner.open(path, create=create, read_only=read_only))

    def map(self, path: str) -> MappedFile:
        self.check("open", path)
        self.check("map", path)
        return self.inner.map(path)

    def read_bytes(self, path: str) -> bytes:
        self.check("open", path)
        self.check("read", path)
        return self.inner.read_bytes(path)

    def read_written(self, path: str) -> bytes:
        self.check("read", path)
        return self.inner.read_written(path)

    def write_bytes(self, path: str, data: Bytes, *, sync: bool = False) -> None:
        file = self.open(path, create=True)
        try:
            file.truncate(0)
            file.pwrite(data, 0)
            if sync:
                file.sync()
        finally:
            file.close()

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def is_directory(self, path: str) -> bool:
        return self.inner.is_directory(path)

    def size(self, path: str) -> int:
        self.check("stat", path)
        return self.inner.size(path)

    def modified_ms(self, path: str) -> int:
        self.check("stat", path)
        return self.inner.modified_ms(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.check("set time of", path)
        self.inner.set_modified_ms(path, modified_ms)

    def list(self, directory: str) -> list[str]:
        self.check("list", directory)
        return self.inner.list(directory)

    def make_directory(self, path: str) -> None:
        self.check("create directory", path)
        self.inner.make_directory(path)

    def truncate(self, path: str, size: int) -> None:
        file = self.open(path, create=True)
        try:
            file.truncate(size)
        finally:
            file.close()

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        self.inner.rename(source, target)

    def unlink(self, path: str) -> bool:
        self.check("remove", path)
        return self.inner.unlink(path)

    def remove_tree(self, directory: str) -> None:
        self.check("remove", directory)
        self.inner.remove_tree(directory)

    def sync(self, path: str) -> None:
        self.check("open", path)
        self.check("fsync", path)
        self.inner.sync(path)

    def sync_directory(self, path: str) -> None:
        self.check("open", path)
        self.check("fsync", path)
        self.inner.sync_directory(path)

    def free_bytes(self, path: str) -> int:
        self.check("stat volume", path)
        return self.inner.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        self.check("stat volume", path)
        return self.inner.total_bytes(path)

    def lock(self, path: str) -> FileLock | None:
        self.check("lock", path)
        return self.inner.lock(path)


class FailingFile:
    """Fulfils `File`."""

    def __init__(self, disk: FailingFileSystem, inner: File) -> None:
        self._disk = disk
        self._inner = inner

    @property
    def path(self) -> str:
        return self._inner.path

    @path.setter
    def path(self, path: str) -> None:
        self._inner.path = path

    def fileno(self) -> int:
        return self._inner.fileno()

    def pread(self, size: int, position: int) -> bytes:
        self._disk.check("read", self.path)
        return self._inner.pread(size, position)

    def pwrite(self, data: Bytes, position: int) -> None:
        short = self._disk.check("write", self.path)
        if short is None:
            self._inner.pwrite(data, position)
            return
        self._inner.pwrite(memoryview(data)[: short.after_bytes], position)
        raise StorageError(self.path, "write", short.number)

    def truncate(self, size: int) -> None:
        self._disk.check("truncate", self.path)
        self._inner.truncate(size)

    def size(self) -> int:
        self._disk.check("stat", self.path)
        return self._inner.size()

    def sync(self) -> None:
        self._disk.check("fsync", self.path)
        self._inner.sync()

    def close(self) -> None:
        self._inner.close()
