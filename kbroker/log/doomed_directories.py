"""Partition directories of deleted topics, renamed to `-delete`, and when they go.

Law: they stay for file.delete.delay.ms, so that answers under way can still be sent from them.
"""

from __future__ import annotations

from collections.abc import Callable

from kbroker.log.file_system import FileSystem, StorageError


class DoomedDirectories:
    """Paths that wait for their removal. Owned by the log manager."""

    def __init__(self, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._waiting: list[tuple[str, int | None]] = []

    def add(self, path: str, remove_at_ms: int | None = None) -> None:
        """Remove it at that time; None: a delay from the next `remove_due` on."""
        self._waiting.append((path, remove_at_ms))

    def remove_due(
        self, now_ms: int, delay_ms: int, on_error: Callable[[str, StorageError], None]
    ) -> None:
        """Remove those whose time has come; `on_error` hears (path, error)."""
        waiting = [(path, now_ms + delay_ms if at is None else at) for path, at in self._waiting]
        self._waiting = [(path, at) for path, at in waiting if at > now_ms]
        for path, at in waiting:
            if at <= now_ms:
                try:
                    self._file_system.remove_tree(path)
                except StorageError as error:
                    on_error(path, error)
