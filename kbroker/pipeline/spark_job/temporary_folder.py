"""Folders for what Spark keeps on disk while it runs, removed when the process ends and not before:
Java outlives a stopped session, loads classes from there, and keeps files of the next session.

A process that was killed leaves its folder behind; the next one removes it. A lock that every owner
holds, and that goes with it, tells which folders are left behind.
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
    """Make a new folder for this process, and remove those of processes that are gone."""
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
    """Remove all folders of this process."""
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
