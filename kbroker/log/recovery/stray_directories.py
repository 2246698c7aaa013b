"""Partition directories of topics that the cluster does not have: left alone, until a new topic
takes the name.

Law: nothing in them is read, changed or deleted; at most they are renamed. Their records may be
wanted, and nobody asked to delete them.
"""

from __future__ import annotations

from uuid import uuid4

from kbroker.log.file_system import FileSystem
from kbroker.log.format import parse_directory_name, stray_directory_name


class StrayDirectories:
    """Paths by topic. Owned by the log manager."""

    def __init__(self, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._paths: dict[str, list[str]] = {}

    def add(self, topic: str, path: str) -> None:
        """A directory that was found."""
        self._paths.setdefault(topic, []).append(path)

    def set_aside(self, topic: str) -> None:
        """Rename all of them: nothing of a new topic may mix with those of an earlier one.

        Raises StorageError.
        """
        for path in self._paths.pop(topic, ()):
            home, _, name = path.rpartition("/")
            topic_partition = parse_directory_name(name)
            assert topic_partition is not None, name
            stray = stray_directory_name(topic_partition, uuid4())
            self._file_system.rename(path, f"{home}/{stray}")
