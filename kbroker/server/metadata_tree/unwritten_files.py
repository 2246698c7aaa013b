"""The files of an embedded tree, to be read only: what its store writes stays in memory.

A tree that is looked at or copied by a command keeps every byte, also the ephemeral nodes of a
broker that was killed, so that the broker's next start finds what it left.
"""

from __future__ import annotations

from kbroker.zk.embedded.tree_journal import TreeFiles


class UnwrittenFiles:
    """Implements the tree's TreeFiles over others that are never written."""

    def __init__(self, files: TreeFiles) -> None:
        self._files = files
        self._changed: dict[str, bytearray | None] = {}  # None: removed

    def read(self, name: str) -> bytes | None:
        """The whole file, or None when there is none."""
        if name not in self._changed:
            return self._files.read(name)
        data = self._changed[name]
        return None if data is None else bytes(data)

    def is_changed(self, name: str) -> bool:
        """Whether a store would have written this file."""
        return name in self._changed

    def open_append(self, name: str) -> UnwrittenFile:
        """Open a copy in memory for appending."""
        data = bytearray(self.read(name) or b"")
        self._changed[name] = data
        return UnwrittenFile(data)

    def rename(self, old: str, new: str) -> None:
        """Rename, replacing what is there."""
        self._changed[new], self._changed[old] = bytearray(self.read(old) or b""), None

    def unlink(self, name: str) -> None:
        """Forget a file, and leave the one on the disk."""
        self._changed[name] = None

    def fsync_directory(self) -> None: ...


class UnwrittenFile:
    """Implements the tree's AppendFile in memory."""

    def __init__(self, data: bytearray) -> None:
        self._data = data

    def write(self, data: bytes) -> None:
        """Append all of `data`."""
        self._data += data

    def fsync(self) -> None: ...

    def truncate(self, size_bytes: int) -> None:
        """Cut the copy to that size."""
        del self._data[size_bytes:]

    def close(self) -> None: ...
