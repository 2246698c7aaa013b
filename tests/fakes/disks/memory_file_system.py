"""A disk in memory, which refuses what a real one refuses.

Law: it passes the same contract tests as RealFileSystem. Every change of a file or a directory goes
through one of the methods named `_change_*`, so that a subclass can watch them all. A hole costs
nothing: behind the written bytes of a file there may be any number of zeros.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator

from kbroker.log.disk.file_system import Bytes, StorageError

MTIME_MS = 1_700_000_000_000


class Node:
    """A file or a directory, whatever its names are."""

    __slots__ = ("data", "entries", "is_locked", "modified_ms", "size")

    def __init__(self, *, is_directory: bool, modified_ms: int) -> None:
        self.entries: dict[str, Node] | None = {} if is_directory else None
        self.data: bytes | bytearray = b""  # zeros follow, up to `size`
        self.size = 0
        self.modified_ms = modified_ms
        self.is_locked = False


class MemoryFileSystem:
    """Fulfils `FileSystem`; paths are absolute. `capacity_bytes` is all that files may hold."""

    def __init__(
        self, *, capacity_bytes: int = 1 << 40, now_ms: Callable[[], int] = lambda: MTIME_MS
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self.now_ms = now_ms
        self.root = self.new_node(is_directory=True)

    def new_node(self, *, is_directory: bool) -> Node:
        return Node(is_directory=is_directory, modified_ms=self.now_ms())

    # What a disk is asked for

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> MemoryFile:
        node = self._find(path)
        if node is None:
            if not create:
                raise StorageError(path, "open", errno.ENOENT)
            parent, name = self._parent(path, "open")
            node = self.new_node(is_directory=False)
            self._change_link(parent, name, node, path)
        elif node.entries is not None and not (read_only and not create):
            raise StorageError(path, "open", errno.EISDIR)
        return MemoryFile(self, node, path, read_only=read_only)

    def map(self, path: str) -> MemoryMapping:
        node = self._node(path, "open")
        if node.entries is not None:
            raise StorageError(path, "map", errno.ENODEV)
        return MemoryMapping(_content(node))

    def read_bytes(self, path: str) -> bytes:
        node = self._node(path, "open")
        if node.entries is not None:
            raise StorageError(path, "read", errno.EISDIR)
        return _content(node)

    def read_written(self, path: str) -> bytes:
        return self.read_bytes(path)

    def write_bytes(self, path: str, data: Bytes, *, sync: bool = False) -> None:
        file = self.open(path, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        if sync:
            file.sync()

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        node = self._find(path)
        return node is not None and node.entries is not None

    def size(self, path: str) -> int:
        return self._node(path, "stat").size

    def modified_ms(self, path: str) -> int:
        return self._node(path, "stat").modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._node(path, "set time of").modified_ms = modified_ms

    def list(self, directory: str) -> list[str]:
        entries = self._node(directory, "list").entries
        if entries is None:
            raise StorageError(directory, "list", errno.ENOTDIR)
        return sorted(entries)

    def make_directory(self, path: str) -> None:
        node = self.root
        so_far = ""
        for name in _names(path):
            so_far = f"{so_far}/{name}"
            if node.entries is None:
                raise StorageError(path, "create directory", errno.ENOTDIR)
            found = node.entries.get(name)
            if found is None:
                found = self.new_node(is_directory=True)
                self._change_link(node, name, found, so_far)
            node = found
        if node.entries is None:
            raise StorageError(path, "create directory", errno.EEXIST)

    def truncate(self, path: str, size: int) -> None:
        self.open(path, create=True).truncate(size)

    def rename(self, source: str, target: str) -> None:
        operation = f"rename to {target}:"
        node = self._find(source)
        if node is None:
            raise StorageError(source, operation, errno.ENOENT)
        old_parent, old_name = self._parent(source, operation)
        try:
            new_parent, new_name = self._parent(target, operation)
        except StorageError as error:
            raise StorageError(source, operation, error.errno) from None
        assert new_parent.entries is not None
        replaced = new_parent.entries.get(new_name)
        if replaced is node:
            return
        if replaced is not None:
            _check_replacement(node, replaced, source, operation)
        self._change_rename(old_parent, old_name, new_parent, new_name, source)

    def unlink(self, path: str) -> bool:
        node = self._find(path)
        if node is None:
            return False
        if node.entries is not None:
            raise StorageError(path, "remove", errno.EISDIR)
        parent, name = self._parent(path, "remove")
        self._change_unlink(parent, name, path)
        return True

    def remove_tree(self, directory: str) -> None:
        node = self._find(directory)
        if node is None:
            return
        if node.entries is None:
            raise StorageError(directory, "remove", errno.ENOTDIR)
        for name, child in sorted(node.entries.items()):
            path = f"{directory}/{name}"
            if child.entries is None:
                self._change_unlink(node, name, path)
            else:
                self.remove_tree(path)
        parent, name = self._parent(directory, "remove")
        self._change_unlink(parent, name, directory)

    def sync(self, path: str) -> None:
        self.open(path).sync()

    def sync_directory(self, path: str) -> None:
        self._change_sync(self._node(path, "open"), path)

    def free_bytes(self, path: str) -> int:
        self._node(path, "stat volume")
        return max(0, self.capacity_bytes - self.used_bytes)

    def total_bytes(self, path: str) -> int:
        self._node(path, "stat volume")
        return self.capacity_bytes

    def lock(self, path: str) -> MemoryFileLock | None:
        node = self.open(path, create=True).node
        if node.is_locked:
            return None
        node.is_locked = True
        return MemoryFileLock(node)

    def files(self, directory: str = "") -> Iterator[tuple[str, Node]]:
        """Every file below a directory with its path, in order."""
        node = self._node(directory or "/", "list")
        for name, child in sorted((node.entries or {}).items()):
            path = f"{directory}/{name}"
            if child.entries is None:
                yield path, child
            else:
                yield from self.files(path)

    def content(self) -> object:
        """All that can be found here: the same of two disks that are alike."""
        return _shown(self.root)

    # Every change there is

    def _change_write(self, node: Node, data: Bytes, position: int, path: str) -> None:
        room = self.capacity_bytes - self.used_bytes + max(0, len(node.data) - position)
        fits = data if len(data) <= room else memoryview(data)[: max(0, room)]
        write_into(node, fits, position=position, volume=self)
        node.modified_ms = self.now_ms()
        if len(fits) < len(data):
            raise StorageError(path, "write", errno.ENOSPC)

    def _change_truncate(self, node: Node, size: int, path: str) -> None:
        truncate_to(node, size, self)
        node.modified_ms = self.now_ms()

    def _change_sync(self, node: Node, path: str) -> None:
        pass

    def _change_link(self, parent: Node, name: str, node: Node, path: str) -> None:
        assert parent.entries is not None
        parent.entries[name] = node

    def _change_unlink(self, parent: Node, name: str, path: str) -> None:
        assert parent.entries is not None
        node = parent.entries.pop(name)
        self.used_bytes -= len(node.data)

    def _change_rename(
        self, old_parent: Node, old_name: str, new_parent: Node, new_name: str, path: str
    ) -> None:
        assert old_parent.entries is not None
        assert new_parent.entries is not None
        replaced = new_parent.entries.get(new_name)
        if replaced is not None:
            self.used_bytes -= len(replaced.data)
        new_parent.entries[new_name] = old_parent.entries.pop(old_name)

    # Finding

    def _find(self, path: str) -> Node | None:
        node: Node | None = self.root
        for name in _names(path):
            if node is None or node.entries is None:
                return None
            node = node.entries.get(name)
        return node

    def _node(self, path: str, operation: str) -> Node:
        node = self._find(path)
        if node is None:
            raise StorageError(path, operation, errno.ENOENT)
        return node

    def _parent(self, path: str, operation: str) -> tuple[Node, str]:
        directory, _, name = path.rstrip("/").rpartition("/")
        parent = self._find(directory)
        if parent is None:
            raise StorageError(path, operation, errno.ENOENT)
        if parent.entries is None:
            raise StorageError(path, operation, errno.ENOTDIR)
        return parent, name


class MemoryFile:
    """Fulfils `File`. It stays the same file when its name goes to another one."""

    def __init__(
        self, file_system: MemoryFileSystem, node: Node, path: str, *, read_only: bool
    ) -> None:
        self.path = path
        self.node = node
        self._file_system = file_system
        self._is_read_only = read_only
        self._is_open = True
        self._copy: tempfile._TemporaryFileWrapper[bytes] | None = None

    def fileno(self) -> int:
        """Of a real file with the bytes of now, since only the system has descriptors."""
        self._check("stat")
        if self._copy is None:
            self._copy = tempfile.NamedTemporaryFile(buffering=0)  # noqa: SIM115 - until `close`
        os.ftruncate(self._copy.fileno(), 0)
        os.pwrite(self._copy.fileno(), _content(self.node), 0)
        return self._copy.fileno()

    def pread(self, size: int, position: int) -> bytes:
        self._check("read")
        node = self.node
        if node.entries is not None:
            raise StorageError(self.path, "read", errno.EISDIR)
        end = min(position + size, node.size)
        data = bytes(node.data[position:end])
        missing = end - position - len(data)
        return data + bytes(missing) if missing > 0 else data

    def pwrite(self, data: Bytes, position: int) -> None:
        self._check("write", writes=True)
        self._file_system._change_write(self.node, data, position, self.path)

    def truncate(self, size: int) -> None:
        self._check("truncate", writes=True)
        self._file_system._change_truncate(self.node, size, self.path)

    def size(self) -> int:
        self._check("stat")
        return self.node.size

    def sync(self) -> None:
        self._check("fsync")
        self._file_system._change_sync(self.node, self.path)

    def close(self) -> None:
        self._is_open = False
        if self._copy is not None:
            self._copy.close()
            self._copy = None

    def _check(self, operation: str, *, writes: bool = False) -> None:
        if not self._is_open:
            raise StorageError(self.path, operation, errno.EBADF)
        if writes and self._is_read_only:
            # ftruncate and pwrite of a descriptor that was opened for reading
            number = errno.EINVAL if operation == "truncate" else errno.EBADF
            raise StorageError(self.path, operation, number)


class MemoryMapping:
    """Fulfils `MappedFile`."""

    def __init__(self, data: bytes) -> None:
        self._view = memoryview(data)

    def __enter__(self) -> memoryview:
        return self._view

    def __exit__(self, *_: object) -> None:
        self._view.release()


class MemoryFileLock:
    """Fulfils `FileLock`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def release(self) -> None:
        self._node.is_locked = False


def write_into(node: Node, data: Bytes, *, position: int, volume: MemoryFileSystem) -> None:
    """Put bytes into a file, and their room into the account of the volume."""
    content = node.data
    if not isinstance(content, bytearray):
        content = node.data = bytearray(content)
    before = len(content)
    if position > before:
        content += bytes(position - before)
    content[position : position + len(data)] = data
    node.size = max(node.size, position + len(data))
    volume.used_bytes += len(content) - before


def truncate_to(node: Node, size: int, volume: MemoryFileSystem) -> None:
    """Set the size of a file; a hole takes no room."""
    if len(node.data) > size:
        volume.used_bytes -= len(node.data) - size
        node.data = bytearray(node.data[:size])
    node.size = size


def _content(node: Node) -> bytes:
    return bytes(node.data) + bytes(node.size - len(node.data))


def _shown(node: Node) -> object:
    if node.entries is None:
        return bytes(node.data), node.size, node.modified_ms
    return frozenset((name, _shown(child)) for name, child in node.entries.items())


def _names(path: str) -> Iterator[str]:
    assert path[:1] in {"/", ""}, f"{path} is not absolute"
    return filter(None, path.split("/"))


def _check_replacement(node: Node, replaced: Node, path: str, operation: str) -> None:
    if node.entries is None and replaced.entries is not None:
        raise StorageError(path, operation, errno.EISDIR)
    if node.entries is not None and replaced.entries is None:
        raise StorageError(path, operation, errno.ENOTDIR)
    if replaced.entries:
        raise StorageError(path, operation, errno.ENOTEMPTY)
