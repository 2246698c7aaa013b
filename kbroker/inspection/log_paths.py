"""Says what a path is, for callers that only read: a data directory, the directory of one
partition, or neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from kbroker.inspection.data_directory import (
    DataDirectory,
    PartitionDirectory,
    read_data_directory,
)
from kbroker.inspection.partition_files import sort_files
from kbroker.log.directories.unfinished_restore import unfinished_restore
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import META_PROPERTIES_FILE, is_moved_directory, parse_directory_name


class NotALogError(Exception):
    """Raised if there is no log at a path; the message is one sentence that says so."""


LogPath = DataDirectory | PartitionDirectory


def log_directory(file_system: FileSystem, path: str) -> LogPath:
    """Return what kind of directory this is. Raises NotALogError, StorageError."""
    path = path.rstrip("/") or "/"
    if not file_system.exists(path):
        raise NotALogError(f"{path} does not exist")
    if not file_system.is_directory(path):
        raise NotALogError(
            f"{path} is not a directory (`kbroker log dump` shows what is in a single file)"
        )
    names = file_system.list(path)
    if not names:
        raise NotALogError(f"{path} is empty: it holds no log")
    sentence = unfinished_restore(file_system, path)
    if sentence is not None:
        raise NotALogError(sentence)
    topic_partition = parse_directory_name(path.rpartition("/")[2])
    if topic_partition is not None and sort_files(names).has_log:
        return PartitionDirectory(path, topic_partition)
    brokers = [
        f"{path}/{name}"
        for name in sorted(names)
        if file_system.exists(f"{path}/{name}/{META_PROPERTIES_FILE}")
    ]
    if brokers and META_PROPERTIES_FILE not in names:
        raise NotALogError(
            f"{path} is not a data directory, but has those of brokers in it: give "
            + " ".join(brokers)
        )
    found = read_data_directory(file_system, path)
    is_by_name = found.partitions and not (found.moved or found.meta or found.offsets)
    if not found.is_used or (is_by_name and not _has_logs(file_system, found)):
        raise NotALogError(
            f"{path} is neither a data directory (with meta.properties or partitions in it) nor "
            "a partition directory (named TOPIC-PARTITION, with segments in it)"
        )
    return found


def partition_directories(
    paths: Iterable[LogPath], topic: str | None = None, partition: int | None = None
) -> list[PartitionDirectory]:
    """Return the partitions in these places, of one topic and number if these are given."""
    found: list[PartitionDirectory] = []
    for path in paths:
        found.extend(path.directories() if isinstance(path, DataDirectory) else [path])
    return [
        directory
        for directory in found
        if topic in (None, directory.topic_partition.topic)
        and partition in (None, directory.topic_partition.partition)
        and not is_moved_directory(directory.path)
    ]


def topics_below(file_system: FileSystem, paths: Iterable[str]) -> set[str]:
    """Return the topics with a partition in these places, for hints; places that cannot be read are
    left out.
    """
    places = []
    for path in paths:
        with suppress(NotALogError, StorageError):
            places.append(log_directory(file_system, path))
    return {directory.topic_partition.topic for directory in partition_directories(places)}


def _has_logs(file_system: FileSystem, found: DataDirectory) -> bool:
    """True if a directory named as a partition holds files of a log."""
    paths = (f"{found.path}/{name}" for name in found.partitions)
    return any(
        file_system.is_directory(p) and sort_files(file_system.list(p)).has_log for p in paths
    )
