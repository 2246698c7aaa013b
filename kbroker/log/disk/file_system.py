"""The one door to the disk: everything in `log` that opens, maps, renames or removes a file does it
through here.

Law: no `OSError` leaves this module; it becomes `StorageError`, which says what was tried where.
Operations are methods of `FileSystem` or of the handles it returns, so a recording, failing or
in-memory one can stand in.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from contextlib import closing
from typing import Protocol

Bytes = bytes | bytearray | memoryview

SYNC = "fsync"  # the operation of an error that says: what was written before may be lost

_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT)
# Size and place of a file's data are on the disk after it too; only its times may not be.
_sync_data = getattr(os, "fdatasync", os.fsync)


class StorageError(Exception):
    """The disk refused `operation` on `path`; `errno` is the system's number (0: none)."""

    def __init__(self, path: str, operation: str, errno: int, reason: str = "") -> None:
        super().__init__(f"{operation} {path}: {reason or os.strerror(errno)}")
        self.path = path
        self.operation = operation
        self.errno = errno

    @property
    def is_out_of_descriptors(self) -> bool:
        """Nothing is wrong with the disk: too many files are open, which passes."""
        return self.errno in _OUT_OF_DESCRIPTORS

    @property
    def is_out_of_space(self) -> bool:
        """Nothing is wrong with the disk: it is full, or the quota is used up, which passes. Not
        for a sync: what it could not place is lost.
        """
        return self.errno in _OUT_OF_SPACE and self.operation != SYNC

    @property
    def is_passing(self) -> bool:
        """Whether the refused operation may be tried again later; everything written before is
        intact.
        """
        return self.is_out_of_descriptors or self.is_out_of_space


class File(Protocol):
    """An open file. Positions and sizes are in bytes; nothing here moves a shared file position."""

    __slots__ = ()

    path: str  # where it was opened; follows `FileSystem.rename` only if the owner sets it

    def fileno(self) -> int:
        """Descriptor, valid until `close`."""

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""

    def pwrite(self, data: Bytes, position: int) -> None:
        """Write all of `data` at `position`."""

    def truncate(self, size: int) -> None:
        """Cut, or extend with a hole of zeros."""

    def size(self) -> int: ...

    def sync(self) -> None:
        """fdatasync: data and size are on the disk when this returns."""

    def close(self) -> None:
        """Give the descriptor back; closing twice does nothing."""


class MappedFile(Protocol):
    """A read-only mapping of a whole file; its view is valid inside the `with`."""

    __slots__ = ()

    def __enter__(self) -> memoryview: ...

    def __exit__(self, *error: object) -> None: ...


class FileLock(Protocol):
    """A held lock file."""

    __slots__ = ()

    def release(self) -> None:
        """Let others have the lock; its file stays."""


class FileSystem(Protocol):
    """The operations that a log needs of a disk. Every method may raise StorageError."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        """Open for reading and writing; `create` makes a missing file."""

    def map(self, path: str) -> MappedFile:
        """Map the file read-only as it is now; an empty file gives an empty view."""

    def read_bytes(self, path: str) -> bytes: ...

    def read_written(self, path: str) -> bytes:
        """The file without the hole of zeros at its end, if it has one."""

    def write_bytes(self, path: str, data: Bytes, *, sync: bool = False) -> None:
        """Create or replace the file's content in place, not atomically."""

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """Time of the last change of the content, Unix milliseconds."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Let a file look as if its content had changed last at that time."""

    def list(self, directory: str) -> list[str]:
        """Names in the directory, sorted, without their path."""

    def make_directory(self, path: str) -> None:
        """Make a directory with its missing parents; an existing one is fine."""

    def truncate(self, path: str, size: int) -> None:
        """Cut or extend (sparse) a file; creates it when missing."""

    def rename(self, source: str, target: str) -> None:
        """Rename atomically, in place of a file at `target`."""

    def unlink(self, path: str) -> bool:
        """Remove a file; False when there was none."""

    def remove_tree(self, directory: str) -> None:
        """Remove a directory with all in it; a missing one is fine."""

    def sync(self, path: str) -> None:
        """Bring a closed file to the disk (fdatasync)."""

    def sync_directory(self, path: str) -> None:
        """Fsync a directory: renames and new names in it survive a power loss from then on."""

    def free_bytes(self, path: str) -> int:
        """Space an ordinary user may still fill on the volume of `path`."""

    def total_bytes(self, path: str) -> int:
        """Size of the volume of `path`."""

    def lock(self, path: str) -> FileLock | None:
        """Create `path` and lock it for this process; None when another holder has it."""


def _error(path: str, operation: str, error: OSError | ValueError) -> StorageError:
    number = error.errno if isinstance(error, OSError) else 0
    return StorageError(path, operation, number or 0, str(error) if not number else "")


class _Refusals:
    """Raises what the system refuses as a StorageError."""

    __slots__ = ("_operation", "_path")

    def __init__(self, path: str, operation: str) -> None:
        self._path = path
        self._operation = operation

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError | ValueError):
            raise _error(self._path, self._operation, error) from error


class RealFile(File):
    """A file of the operating system."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def pread(self, size: int, position: int) -> bytes:
        try:
            data = os.pread(self._fd, size, position)
            if len(data) == size or not data:
                return data
            pieces = [data]
            missing = size - len(data)
            while missing and (data := os.pread(self._fd, missing, position + size - missing)):
                pieces.append(data)
                missing -= len(data)
        except OSError as error:  # for reads and writes a context would cost too much
            raise _error(self.path, "read", error) from error
        return b"".join(pieces)

    def pwrite(self, data: Bytes, position: int) -> None:
        try:
            written = os.pwrite(self._fd, data, position)
            if written == len(data):
                return
            rest = memoryview(data)
            while written < len(rest):
                written += os.pwrite(self._fd, rest[written:], position + written)
        except OSError as error:
            raise _error(self.path, "write", error) from error

    def truncate(self, size: int) -> None:
        with _Refusals(self.path, "truncate"):
            os.ftruncate(self._fd, size)

    def size(self) -> int:
        with _Refusals(self.path, "stat"):
            return os.fstat(self._fd).st_size

    def sync(self) -> None:
        with _Refusals(self.path, SYNC):
            _sync_data(self._fd)

    def close(self) -> None:
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        with _Refusals(self.path, "close"):
            os.close(fd)

    def __del__(self) -> None:
        """A slice may open the file of a log that was closed before: it goes with the slice."""
        self.close()


class RealMapping(MappedFile):
    """A mapping that lives as long as its `with` block, and so does its descriptor."""

    __slots__ = ("_map", "_view")

    def __init__(self, fd: int, size: int) -> None:
        self._map = mmap.mmap(fd, size, access=mmap.ACCESS_READ) if size else None
        self._view = memoryview(self._map if self._map is not None else b"")

    def __enter__(self) -> memoryview:
        return self._view

    def __exit__(self, *error: object) -> None:
        self._view.release()
        if self._map is not None:
            self._map.close()


class RealFileLock(FileLock):
    """Both kinds of lock on an open file; the system lets go of them when the process dies."""

    __slots__ = ("_file",)

    def __init__(self, file: RealFile) -> None:
        self._file = file

    def release(self) -> None:
        self._file.close()


class RealFileSystem(FileSystem):
    """The operating system's files."""

    _file_type: type[RealFile] = RealFile

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> RealFile:
        flags = (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC
        with _Refusals(path, "open"):
            fd = os.open(path, flags | (os.O_CREAT if create else 0), 0o644)
        return self._file_type(path, fd)

    def map(self, path: str) -> RealMapping:
        with closing(self.open(path, read_only=True)) as file, _Refusals(path, "map"):
            return RealMapping(file.fileno(), file.size())

    def read_bytes(self, path: str) -> bytes:
        with closing(self.open(path, read_only=True)) as file:
            return file.pread(file.size(), 0)

    def read_written(self, path: str) -> bytes:
        with _Refusals(path, "read"), open(path, "rb", buffering=0) as file:
            return os.pread(file.fileno(), _written_end(file.fileno()), 0)

    def write_bytes(self, path: str, data: Bytes, *, sync: bool = False) -> None:
        with closing(self.open(path, create=True)) as file:
            file.truncate(0)
            file.pwrite(data, 0)
            if sync:
                file.sync()

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        with _Refusals(path, "stat"):
            return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        with _Refusals(path, "stat"):
            return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        time_ns = modified_ms * 1_000_000
        with _Refusals(path, "set time of"):
            os.utime(path, ns=(time_ns, time_ns))

    def list(self, directory: str) -> list[str]:
        with _Refusals(directory, "list"):
            return sorted(os.listdir(directory))

    def make_directory(self, path: str) -> None:
        with _Refusals(path, "create directory"):
            os.makedirs(path, exist_ok=True)

    def truncate(self, path: str, size: int) -> None:
        with closing(self.open(path, create=True)) as file:
            file.truncate(size)

    def rename(self, source: str, target: str) -> None:
        with _Refusals(source, f"rename to {target}:"):
            os.replace(source, target)

    def unlink(self, path: str) -> bool:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _error(path, "remove", error) from error
        return True

    def remove_tree(self, directory: str) -> None:
        import shutil  # half a megabyte, for what is rare

        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _error(directory, "remove", error) from error

    def sync(self, path: str) -> None:
        with closing(self.open(path)) as file:
            file.sync()

    def sync_directory(self, path: str) -> None:
        with closing(self.open(path, read_only=True)) as file, _Refusals(path, SYNC):
            os.fsync(file.fileno())

    def free_bytes(self, path: str) -> int:
        return self._volume(path)[0]

    def total_bytes(self, path: str) -> int:
        return self._volume(path)[1]

    def lock(self, path: str) -> RealFileLock | None:
        file = self.open(path, create=True)
        try:
            # flock keeps out other brokers of this process; Java takes the other kind, and neither
            # sees the other.
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return None
            raise _error(path, "lock", error) from error
        return RealFileLock(file)

    @staticmethod
    def _volume(path: str) -> tuple[int, int]:
        with _Refusals(path, "stat volume"):
            volume = os.statvfs(path)
        return volume.f_bavail * volume.f_frsize, volume.f_blocks * volume.f_frsize


def _written_end(fd: int) -> int:
    """Where the hole at the end of a file begins, as that of an active index; its size without one.
    The disk may count in blocks, so zeros may come before it. Raises OSError.
    """
    size = os.fstat(fd).st_size
    end = 0
    try:
        while end < size:
            end = os.lseek(fd, os.lseek(fd, end, os.SEEK_DATA), os.SEEK_HOLE)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOTSUP):  # a disk that knows of no holes
            return size
        if error.errno != errno.ENXIO:  # nothing but the hole follows
            raise
    return min(end, size)
