"""Room for a start on a disk that is full.

Law: what an earlier run deleted is read by nobody any more. It would go a delay after the start; a
start that has no room to write would wait for that in vain.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import DELETE_DIRECTORY_SUFFIX

ROOM_BYTES: Final = 16 * 1024 * 1024  # what a start writes fits

_log = logging.getLogger(__name__)


def make_room(file_system: FileSystem, directory: str) -> None:
    """Remove partitions that were deleted, at once, if a locked data directory has less room
    than a start needs. A disk that refuses this is left to those who open its logs.
    """
    with suppress(StorageError):
        if file_system.free_bytes(directory) >= ROOM_BYTES:
            return
        names = [
            name for name in file_system.list(directory) if name.endswith(DELETE_DIRECTORY_SUFFIX)
        ]
        if names:
            _log.warning(
                "%s has no room for a start: %d deleted partitions are removed at once",
                directory,
                len(names),
            )
        for name in names:
            file_system.remove_tree(f"{directory}/{name}")
