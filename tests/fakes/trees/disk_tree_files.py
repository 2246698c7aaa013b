"""A real directory for an embedded tree, without the broker's own file layer."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


class DiskTreeFiles:
    """Fulfils `TreeFiles`."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return (self._directory / name).read_bytes()
        return None

    def open_append(self, name: str) -> DiskAppendFile:
        return DiskAppendFile(self._directory / name)

    def rename(self, old: str, new: str) -> None:
        (self._directory / old).rename(self._directory / new)

    def unlink(self, name: str) -> None:
        (self._directory / name).unlink(missing_ok=True)

    def fsync_directory(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


class DiskAppendFile:
    """Fulfils `AppendFile`."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, data: bytes) -> None:
        assert os.write(self._descriptor, data) == len(data)

    def fsync(self) -> None:
        os.fsync(self._descriptor)

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)

    def close(self) -> None:
        os.close(self._descriptor)
