"""Folders for what Spark keeps on disk while it runs: gone when the process ends, and not before.
Java goes on when a session has stopped, loads classes from there, and keeps files of the next one.

A process that was killed leaves its folder behind; the next one removes it. Which are left behind
is told by a lock that every folder's owner holds and that goes with it.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "kbroker-spark-"
_LOCK_FILE = "owner.lock"
_held: dict[Path, int] = {}  # folder -> descriptor of its lock


def temporary_folder(parent: Path | None = None) -> Path:
    """A new folder of this process; those of processes that are gone are removed."""
    parent = parent or Path(tempfile.gettempdir())
    for left_behind in parent.glob(f"{_PREFIX}*"):
        _remove_if_unowned(left_behind)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    descriptor = os.open(folder / _LOCK_FILE, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _held[folder] = descriptor
    return folder


@atexit.register
def remove_temporary_folders() -> None:
    """All of this process."""
    while _held:
        folder, descriptor = _held.popitem()
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _remove_if_unowned(folder: Path) -> None:
    try:
        descriptor = os.open(folder / _LOCK_FILE, os.O_RDWR)
    except OSError:
        return  # another user's, or one that is being made
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        pass  # its owner lives
    finally:
        os.close(descriptor)
