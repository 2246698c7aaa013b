"""A sync that failed, and the next start of a broker on that directory.

After a failed sync, by the broker or by the kernel on its own, the kernel may hold pages for clean
that are not on the disk: a reader is shown what a loss of power takes away, and no later sync
writes them. That lasts as long as the page cache, and so does the note of it, a file that nobody
syncs. A start that finds it writes again what was not surely on the disk, and syncs it, before
anything of it is trusted: then the disk says what the cache says, or refuses once more and the
directory stays offline. What the cache has let go of meanwhile is read from the disk, and recovered
like after a loss of power.

Law: the note is removed only when all of it is done, so that a crash in between repeats the work.
Indexes beyond the recovery point are left out, as recovery rebuilds them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing

from kbroker.log.disk import checkpoint
from kbroker.log.disk.checkpoint import CheckpointError
from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import (
    INDEX_SUFFIXES,
    LOCK_FILE,
    LOG_SUFFIX,
    RECOVERY_POINT_CHECKPOINT_FILE,
    offset_of,
    parse_directory_name,
)

NOTE_FILE = "kbroker-failed-sync"

_PIECE_BYTES = 1024 * 1024

_log = logging.getLogger(__name__)


def note(file_system: FileSystem, log_dir: str) -> None:
    """Tell the next start. Raises StorageError."""
    file_system.write_bytes(f"{log_dir}/{NOTE_FILE}", b"")


def make_good(file_system: FileSystem, log_dir: str) -> bool:
    """Write again what a failed sync may have left out; True if one failed. Raises StorageError."""
    path = f"{log_dir}/{NOTE_FILE}"
    if not file_system.exists(path):
        return False
    _log.warning(
        "A sync in %s failed before this start: what it left unsynced is written again", log_dir
    )
    for file in _unsure_files(file_system, log_dir):
        _write_again(file_system, file)
    file_system.sync_directory(log_dir)
    file_system.unlink(path)
    return True


def _unsure_files(file_system: FileSystem, log_dir: str) -> Iterator[str]:
    try:
        file = f"{log_dir}/{RECOVERY_POINT_CHECKPOINT_FILE}"
        recovery_points = checkpoint.read_offset_checkpoint(file_system, file)
    except CheckpointError:
        recovery_points = {}
    for name in file_system.list(log_dir):
        path = f"{log_dir}/{name}"
        if not file_system.is_directory(path):
            if name not in (LOCK_FILE, NOTE_FILE):
                yield path
            continue
        topic_partition = parse_directory_name(name)
        if topic_partition is not None:
            recovery_point = recovery_points.get(topic_partition, 0)
            names = _unsure_names(file_system.list(path), recovery_point)
            yield from (f"{path}/{file}" for file in names)
            file_system.sync_directory(path)


def _unsure_names(names: list[str], recovery_point: int) -> Iterator[str]:
    """The files of a partition, without those of segments that end before the recovery point."""
    bases = [offset_of(name) or 0 for name in names if name.endswith(LOG_SUFFIX)]
    first = max((base for base in bases if base <= recovery_point), default=0)
    for name in names:
        is_synced = name.endswith(LOG_SUFFIX) and (offset_of(name) or 0) < first
        if not is_synced and not name.endswith(INDEX_SUFFIXES):
            yield name


def _write_again(file_system: FileSystem, path: str) -> None:
    modified_ms = file_system.modified_ms(path)
    with closing(file_system.open(path)) as file:
        for position in range(0, file.size(), _PIECE_BYTES):
            data = file.pread(_PIECE_BYTES, position)
            if data.count(0) < len(data):  # else a hole, which stays one
                file.pwrite(data, position)
        file.sync()
    file_system.set_modified_ms(path, modified_ms)
