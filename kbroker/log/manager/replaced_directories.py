"""Finishes what a crash has interrupted when a copy of a log was about to take its place: see
`future_logs` for the names, and the order in which they came to the disk.

Law: the copy has everything from the moment its log is named `-replaced`. Such a directory is let
go only if the copy has the partition's name, durably; while a data directory is offline, which
may hold it, nothing is decided; and if there is no copy at all, the log gets its name back.

Directories of topics that the cluster does not have are left alone, until a new topic takes the
name: nothing in them is read, changed or deleted; at most they are renamed. Their records may be
wanted, and nobody asked to delete them.
"""

from __future__ import annotations

import logging
from uuid import uuid4

from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import (
    FUTURE_DIRECTORY_SUFFIX,
    REPLACED_DIRECTORY_SUFFIX,
    delete_directory_name,
    log_directory_name,
    parse_directory_name,
    stray_directory_name,
    unique_part,
)
from kbroker.log.manager.open_logs import ManagedLogs
from kbroker.model import TopicPartition

_log = logging.getLogger(__name__)


def finish_replacements(logs: ManagedLogs) -> dict[TopicPartition, str]:
    """Do so in all directories that work; the paths of partitions whose copies may be in others."""
    names = _names(logs.directories, logs.environment.file_system)
    undecided: dict[TopicPartition, str] = {}
    for home, found in names.items():
        for name in found:
            topic_partition = parse_directory_name(name)
            if topic_partition is None or not name.endswith(REPLACED_DIRECTORY_SUFFIX):
                continue
            directory = logs.directories.of(home)
            assert directory is not None, home
            try:
                replaced = _Replaced(logs, directory, name, topic_partition)
                if not replaced.finish(names):
                    undecided[topic_partition] = f"{home}/{name}"
            except StorageError as error:
                logs.directories.fail(error.path, error)
                undecided[topic_partition] = f"{home}/{name}"
    return undecided


def _names(directories: LogDirectories, file_system: FileSystem) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for directory in directories.online:
        try:
            names[directory.path] = file_system.list(directory.path)
        except StorageError as error:
            directories.fail(directory.path, error)
    return names


class _Replaced:
    """A directory whose name ends in `-replaced`."""

    def __init__(
        self, logs: ManagedLogs, home: LogDirectory, name: str, topic_partition: TopicPartition
    ) -> None:
        self._file_system = logs.environment.file_system
        self._has_offline = bool(logs.directories.offline_paths)
        self._home = home.path
        self._name = name
        self._topic_partition = topic_partition

    def finish(self, names: dict[str, list[str]]) -> bool:
        """False if it has to wait for a directory that is offline. Raises StorageError."""
        log_name = log_directory_name(self._topic_partition)
        future = f"{self._topic_partition}.{unique_part(self._name)}{FUTURE_DIRECTORY_SUFFIX}"
        for path, found in names.items():
            if future in found:
                _log.warning(
                    "%s takes the place of %s/%s", f"{path}/{future}", self._home, self._name
                )
                self._rename(path, future, log_name)
                self._let_go()
                return True
        for path, found in names.items():
            if log_name in found:
                self._file_system.sync_directory(path)
                self._let_go()
                return True
        if self._has_offline:
            return False
        _log.error("%s/%s: there is no copy of it, it gets its name back", self._home, self._name)
        self._rename(self._home, self._name, log_name)
        return True

    def _let_go(self) -> None:
        name = delete_directory_name(self._topic_partition, uuid4())
        self._rename(self._home, self._name, name)

    def _rename(self, home: str, name: str, new_name: str) -> None:
        self._file_system.rename(f"{home}/{name}", f"{home}/{new_name}")
        self._file_system.sync_directory(home)


class StrayDirectories:
    """Paths by topic. Owned by the log manager."""

    def __init__(self, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._paths: dict[str, list[str]] = {}
        self.renamed: list[str] = []

    def paths(self) -> list[str]:
        """List those that are where they were found."""
        return [path for paths in self._paths.values() for path in paths]

    def size_bytes(self, path: str) -> int:
        """Return the size of the files of one of them, 0 once it has gone."""
        try:
            files = [f"{path}/{name}" for name in self._file_system.list(path)]
            return sum(map(self._file_system.size, files))
        except StorageError:
            return 0

    def add(self, topic: str, path: str) -> None:
        self._paths.setdefault(topic, []).append(path)

    def set_aside(self, topic: str) -> None:
        """Rename all of them: nothing of a new topic may mix with those of an earlier one. Raises
        StorageError.
        """
        for path in self._paths.pop(topic, ()):
            home, _, name = path.rpartition("/")
            topic_partition = parse_directory_name(name)
            assert topic_partition is not None, name
            stray = stray_directory_name(topic_partition, uuid4())
            self._file_system.rename(path, f"{home}/{stray}")
            self.renamed.append(stray)
