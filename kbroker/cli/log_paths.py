"""What the paths given to `kbroker log` are: data directories, partition directories, files of a
log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from kbroker.cli.connection import EXIT_ITEM_FAILED, CommandError
from kbroker.log.file_system import FileSystem, StorageError
from kbroker.log.format import is_moved_directory, parse_directory_name
from kbroker.log.inspection.log_directory_view import LogDirectoryView, view_log_directory
from kbroker.log.inspection.partition_files import sort_files
from kbroker.model import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """A directory with the segments of one partition."""

    path: str
    topic_partition: TopicPartition


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """An entry of log.dirs."""

    view: LogDirectoryView

    @property
    def path(self) -> str:
        """Where it is."""
        return self.view.path

    def partitions(self) -> list[PartitionDirectory]:
        """Its partitions, by name."""
        found = []
        for name in self.view.partitions:
            topic_partition = parse_directory_name(name)
            assert topic_partition is not None, name
            found.append(PartitionDirectory(f"{self.path}/{name}", topic_partition))
        return found


LogPath = DataDirectory | PartitionDirectory


@contextmanager
def storage_errors() -> Iterator[None]:
    """Turn a refusal of the disk into one sentence."""
    try:
        yield
    except StorageError as error:
        raise CommandError(f"cannot {error}", EXIT_ITEM_FAILED) from error


def log_directory(file_system: FileSystem, path: str) -> LogPath:
    """What kind of directory this is; UsageError where it is none of a log's."""
    path = path.rstrip("/") or "/"
    if not file_system.exists(path):
        raise click.UsageError(f"{path} does not exist")
    if not file_system.is_directory(path):
        raise click.UsageError(f"{path} is no directory")
    with storage_errors():
        names = file_system.list(path)
        if not names:
            raise click.UsageError(f"{path} is empty: there is no log in it")
        name = os.path.basename(os.path.abspath(path))
        topic_partition = parse_directory_name(name)
        if topic_partition is not None and _holds_a_log(names):
            return PartitionDirectory(path, topic_partition)
        view = view_log_directory(file_system, path)
    if not view.is_used:
        raise click.UsageError(
            f"{path} is neither a data directory (with meta.properties or partitions in it) nor "
            "a partition directory (named TOPIC-PARTITION, with segments in it)"
        )
    return DataDirectory(view)


def partition_directories(
    paths: Iterable[LogPath], topic: str | None = None, partition: int | None = None
) -> list[PartitionDirectory]:
    """All partitions in these places, of one topic and number where they are given."""
    found: list[PartitionDirectory] = []
    for path in paths:
        found.extend(path.partitions() if isinstance(path, DataDirectory) else [path])
    return [
        directory
        for directory in found
        if topic in (None, directory.topic_partition.topic)
        and partition in (None, directory.topic_partition.partition)
        and not is_moved_directory(directory.path)
    ]


def _holds_a_log(names: list[str]) -> bool:
    files = sort_files(names)
    return bool(files.base_offsets or files.snapshot_offsets or files.orphans) or bool(
        files.names - set(files.foreign)
    )
