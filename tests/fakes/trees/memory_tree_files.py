"""A directory in memory for an embedded tree, which can be made to fail, and a clock that stands
still.
"""

from __future__ import annotations


class FixedClock:
    """Time moves only when told."""

    def __init__(self, now_ms: int = 1_795_251_753_852) -> None:
        self.value_ms = now_ms

    def now_ms(self) -> int:
        return self.value_ms

    def monotonic_ms(self) -> float:
        return float(self.value_ms)


class MemoryTreeFiles:
    """Fulfils `TreeFiles`. `fail_writes_after` bytes, a write stops half way, as on a full disk."""

    def __init__(self, contents: dict[str, bytes] | None = None) -> None:
        self.contents = {name: bytearray(data) for name, data in (contents or {}).items()}
        self.opened: list[str] = []
        self.fsyncs = 0
        self.fail_writes_after: int | None = None
        self.fails_to_truncate = False
        self.fails_to_sync = False

    def snapshot(self) -> dict[str, bytes]:
        """Return the files as a killed process leaves them."""
        return {name: bytes(data) for name, data in self.contents.items()}

    def read(self, name: str) -> bytes | None:
        data = self.contents.get(name)
        return None if data is None else bytes(data)

    def open_append(self, name: str) -> MemoryAppendFile:
        self.opened.append(name)
        self.contents.setdefault(name, bytearray())
        return MemoryAppendFile(self, name)

    def rename(self, old: str, new: str) -> None:
        self.contents[new] = self.contents.pop(old)

    def unlink(self, name: str) -> None:
        self.contents.pop(name, None)

    def fsync_directory(self) -> None:
        self.fsyncs += 1


class MemoryAppendFile:
    """Fulfils `AppendFile`; a renamed file keeps its content, as an open descriptor would."""

    def __init__(self, files: MemoryTreeFiles, name: str) -> None:
        self._files = files
        self._data = files.contents[name]

    def write(self, data: bytes) -> None:
        limit = self._files.fail_writes_after
        if limit is not None and len(data) > limit:
            self._data += data[:limit]
            raise OSError(28, "No space left on device")
        self._data += data

    def fsync(self) -> None:
        if self._files.fails_to_sync:
            raise OSError(5, "Input/output error")
        self._files.fsyncs += 1

    def truncate(self, size_bytes: int) -> None:
        if self._files.fails_to_truncate:
            raise OSError(5, "Input/output error")
        del self._data[size_bytes:]

    def close(self) -> None:
        pass
