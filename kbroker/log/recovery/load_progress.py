"""How far the opening of logs has come, by data directory, and the wish to stop it.

Written by the threads that open logs, read by whoever shows it. A wish to stop is heard within a
mebibyte of a log: what was recovered until then stays as it is, and is recovered again next time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Final

_STEP_BYTES: Final = 1024 * 1024


class LoadCancelledError(Exception):
    """Somebody wished to stop."""


@dataclass(slots=True, eq=False, repr=False)
class DirectoryProgress:
    """The progress in one data directory: logs that are open, bytes that recovery has read."""

    path: str
    logs_total: int
    bytes_total: int
    logs_done: int = 0
    bytes_done: int = 0


class LoadProgress:
    """The progress in all data directories."""

    def __init__(self) -> None:
        self.directories: dict[str, DirectoryProgress] = {}
        self._lock = Lock()
        self._is_cancelled = False

    def cancel(self) -> None:
        """Let the opening of logs end soon, with LoadCancelledError."""
        self._is_cancelled = True

    def expect(self, path: str, logs: int, size_bytes: int) -> None:
        """So many logs will be opened in `path`, with so many bytes to recover."""
        self.directories[path] = DirectoryProgress(path, logs, size_bytes)

    def log_done(self, path: str) -> None:
        """One more log is open. Raises LoadCancelledError."""
        with self._lock:
            self.directories[path].logs_done += 1
        self._check()

    def meter(self, path: str) -> Callable[[int], None]:
        """For one log: call the result with the size of each batch. Raises LoadCancelledError."""
        waiting_bytes = 0

        def read(size_bytes: int) -> None:
            nonlocal waiting_bytes
            waiting_bytes += size_bytes
            if waiting_bytes >= _STEP_BYTES:
                with self._lock:
                    self.directories[path].bytes_done += waiting_bytes
                waiting_bytes = 0
                self._check()

        return read

    def _check(self) -> None:
        if self._is_cancelled:
            raise LoadCancelledError
