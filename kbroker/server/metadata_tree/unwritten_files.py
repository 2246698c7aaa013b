"""The files of an embedded tree for reading only: whatever its store writes stays in memory.

A tree that a command reads or copies keeps every byte, even the ephemeral nodes of a killed broker,
so that the broker's next start finds what it left.
"""

from __future__ import annotations

from kbroker.zk.embedded.tree_journal import AppendFile, TreeFiles


class UnwrittenFiles(TreeFiles):
    """The tree's TreeFiles over others, which are never written."""

    def __init__(self, files: TreeFiles) -> None:
        self._files = files
        self._changed: dict[str, bytearray | None] = {}  # None: removed

    def read(self, name: str) -> bytes | None:
        if name not in self._changed:
            return self._files.read(name)
        data = self._changed[name]
        return None if data is None else bytes(data)

    def is_changed(self, name: str) -> bool:
        """Whether a store would have written this file."""
        return name in self._changed

    def open_append(self, name: str) -> UnwrittenFile:
        data = bytearray(self.read(name) or b"")
        self._changed[name] = data
        return UnwrittenFile(data)

    def rename(self, old: str, new: str) -> None:
        self._changed[new], self._changed[old] = bytearray(self.read(old) or b""), None

    def unlink(self, name: str) -> None:
        self._changed[name] = None

    def fsync_directory(self) -> None: ...


class UnwrittenFile(AppendFile):
    """The tree's AppendFile in memory."""

    def __init__(self, data: bytearray) -> None:
        self._data = data

    def write(self, data: bytes) -> None:
        self._data += data

    def fsync(self) -> None: ...

    def truncate(self, size_bytes: int) -> None:
        del self._data[size_bytes:]

    def close(self) -> None: ...
