"""The paths given to `kbroker log`, with refusals for a command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.inspection import log_paths
from kbroker.inspection.log_paths import LogPath, NotALogError
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.near_names import did_you_mean


@contextmanager
def storage_errors() -> Iterator[None]:
    """Turn an error of the disk into one sentence."""
    try:
        yield
    except StorageError as error:
        raise CommandError(f"cannot {error}", ExitCode.ITEM_FAILED) from error


def log_directory(file_system: FileSystem, path: str) -> LogPath:
    """Find out which kind of directory this is; UsageError if it holds no log."""
    try:
        with storage_errors():
            return log_paths.log_directory(file_system, named(path))
    except NotALogError as error:
        raise click.UsageError(str(error)) from error


def refuse_missing(
    paths: Sequence[LogPath], topic: str | None, partition: int | None = None
) -> NoReturn:
    """Raise CommandError, because no partition in these places is the one that is meant."""
    where = ", ".join(path.path for path in paths)
    there = [each.topic_partition for each in log_paths.partition_directories(paths)]
    topics = {each.topic for each in there}
    if topic is None:
        sentence = f"{where} holds no partition"
    elif topic in topics:
        sentence = f"no such partition in {where}: {topic}-{partition}"
    else:
        sentence = f"no such topic in {where}: {topic}{did_you_mean(topic, topics)}"
    raise CommandError(sentence, ExitCode.ITEM_FAILED)


def named(path: str) -> str:
    """Return the path, made absolute if `.` or `..` hides the directory's name."""
    return os.path.abspath(path) if os.path.basename(path.rstrip("/")) in ("", ".", "..") else path
