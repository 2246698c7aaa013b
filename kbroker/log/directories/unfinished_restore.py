"""A data directory that a restore has not finished: how it says so, to brokers and to all who look.

Law: the folder is there before the first record of a restore is, and until all of the directory is
whole and on the disk. Its name looks like that of a partition without a number, so that Apache
Kafka does not start over it either.
"""

from __future__ import annotations

import json
from typing import Final

from kbroker.log.disk.file_system import FileSystem, StorageError

RESTORE_FOLDER: Final = "kbroker-restore"
NOTE_FILE: Final = "restore.json"  # in the folder; among other things `command`, which goes on


def unfinished_restore(file_system: FileSystem, directory: str) -> str | None:
    """A sentence about the restore that has not reached its end; None if there is none. Raises
    StorageError.
    """
    folder = f"{directory}/{RESTORE_FOLDER}"
    if not file_system.exists(folder):
        return None
    return (
        f"{directory} is not whole: a restore into it has not reached its end; run "
        f"{_command(file_system, folder)} again, which goes on where it was, or remove the "
        "directory"
    )


def _command(file_system: FileSystem, folder: str) -> str:
    try:
        note = json.loads(file_system.read_bytes(f"{folder}/{NOTE_FILE}"))
        return f"`{note['command']}`"
    except (StorageError, ValueError, KeyError, TypeError):
        return "`kbroker pipeline restore`"
