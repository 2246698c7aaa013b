"""Finds out whether unsynced writes of the last broker here may be gone: its process ended without
a word, and the machine with it.

Law: a dying process loses nothing that is in the machine's memory, so a killed broker is trusted,
and one whose machine has been started since is not. The boot is noted beside the logs. Until a
clean stop it is not noted again, because logs that have lost records stay short until then.
"""

from __future__ import annotations

from contextlib import suppress

from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk import checkpoint
from kbroker.log.disk.file_system import FileSystem, StorageError

_BOOT_ID = "/proc/sys/kernel/random/boot_id"  # each start of a Linux kernel draws another


def present_boot_id() -> str | None:
    """Return the id of the machine's present run, None if it is not known."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def has_lost_memory(
    file_system: FileSystem, directories: LogDirectories, boot_id: str | None
) -> bool:
    """Whether a directory in use was left uncleanly in another run of the machine. If not, this run
    is noted in all of them.
    """
    online = directories.online
    for directory in online:
        if directory.meta is None or directory.was_clean:
            continue
        if boot_id is None or checkpoint.read_boot_id(file_system, directory.path) != boot_id:
            return True
    for directory in online if boot_id is not None else ():
        with suppress(StorageError):  # then the next run takes it for lost, to be sure
            checkpoint.write_boot_id(file_system, directory.path, boot_id or "")
    return False
