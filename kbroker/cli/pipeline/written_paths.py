"""Files and directories that a job is to write: made ready, and refused, before any work.

Directories on the way there are made. What is there already stays until the job replaces it.
"""

from __future__ import annotations

import os
import tempfile
from errno import EISDIR
from pathlib import Path

from kbroker.cli.arguments.connection import CommandError


def prepare_file(path: Path, option: str) -> None:
    """See that a file can be written in place of one that is there. Raises CommandError."""
    if path.is_dir():
        raise _refused(path, option, os.strerror(EISDIR))
    if path.exists() and not path.is_file():
        raise _refused(path, option, "It is not an ordinary file")
    _prepare(path.parent, path, option)


def prepare_directory(path: Path, option: str) -> None:
    """See that files can be written there. Raises CommandError."""
    _prepare(path, path, option)


def make_parents(path: Path, option: str) -> None:
    """Make the directories on the way to a file that is appended to. Raises CommandError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(path, option, error.strerror or str(error)) from error


def _prepare(directory: Path, path: Path, option: str) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise _refused(path, option, error.strerror or str(error)) from error


def _refused(path: Path, option: str, reason: str) -> CommandError:
    return CommandError(f"cannot write {option} {path}: {reason}")
