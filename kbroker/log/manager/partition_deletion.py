"""Partition directories that are to go: those of deleted partitions, and what could not be made
whole. Also those that are set aside, whose files stay.

Law: a deletion is answered when its rename is on the disk, else a topic of that name made later
could find these records after a loss of power. What memory says of a directory is what its name
says, after each step: one that was renamed is not a log any more, whatever the sync comes to; it is
tried again until it is done. Files stay for file.delete.delay.ms, so that answers under way can
still be sent from them, and go outside the event loop, which owns this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from uuid import uuid4

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import delete_directory_name, stray_directory_name
from kbroker.log.disk.write_runner import Done, InTurn
from kbroker.log.partition.log import Log
from kbroker.model import TopicPartition

# Told the partitions whose deletion could not be brought to the disk.
OnSettled = Callable[[frozenset[TopicPartition]], None]

_log = logging.getLogger(__name__)


class _Renamed(NamedTuple):
    """A log that is no longer one, whose new name may not be on the disk yet."""

    home: LogDirectory
    path: str
    remove_at_ms: int | None  # None: its files are kept


class PartitionDeletion:
    """Renames, syncs and removes."""

    def __init__(
        self, file_system: FileSystem, directories: LogDirectories, upkeep: InTurn
    ) -> None:
        self._file_system = file_system
        self._directories = directories
        self._upkeep = upkeep
        self._renamed: dict[TopicPartition, _Renamed] = {}
        self._unmade: dict[TopicPartition, str] = {}  # with files of a log that was not made
        self._doomed: list[tuple[str, int | None]] = []

    def doom(self, path: str) -> None:
        """Remove a directory a delay from the next `remove_due` on."""
        self._doomed.append((path, None))

    def rename_away(self, log: Log, home: LogDirectory, now_ms: int) -> None:
        """Make a log a directory that is to go. StorageError if the log stays what it is."""
        name = delete_directory_name(log.topic_partition, uuid4())
        self._rename(log, home, name, now_ms + log.config.file_delete_delay_ms)

    def set_aside(self, log: Log, home: LogDirectory) -> str:
        """Make a log a directory that is kept; returns its name. StorageError if the log stays what
        it is.
        """
        name = stray_directory_name(log.topic_partition, uuid4())
        self._rename(log, home, name, None)
        return name

    def _rename(self, log: Log, home: LogDirectory, name: str, remove_at_ms: int | None) -> None:
        target = f"{home.path}/{name}"
        try:
            self._file_system.rename(log.directory, target)
        except StorageError as error:
            log.files.close_files()
            self._directories.fail(log.directory, error)
            raise
        log.partition_directory.deleted()
        self._renamed[log.topic_partition] = _Renamed(home, target, remove_at_ms)
        home.gone.add(log.topic_partition)
        self._directories.forget_gapless(home, log.topic_partition)
        try:
            log.move_to(target)
        except StorageError as error:
            self._directories.fail(target, error)

    @property
    def are_settled(self) -> bool:
        return not self._renamed

    def check(self, topic_partition: TopicPartition) -> None:
        """KafkaError(KAFKA_STORAGE_ERROR) if a disk failed before a deletion was on it: the log may
        come back with the disk.
        """
        renamed = self._renamed.get(topic_partition)
        if renamed is not None and renamed.home.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(renamed.home.failure))

    def settle(self, on_settled: OnSettled = lambda _: None) -> None:
        """Bring all renames to the disk, one sync for each data directory."""
        homes = {renamed.home.path: renamed.home for renamed in self._renamed.values()}
        waiting = {path for path, home in homes.items() if home.failure is None}
        asked = frozenset(self._renamed)

        def synced(
            home: LogDirectory, batch: list[TopicPartition], error: StorageError | None
        ) -> None:
            if error is None:
                self._settled(batch)
            else:
                self._directories.fail(home.path, error)
            waiting.discard(home.path)
            if not waiting:
                on_settled(asked & self._renamed.keys())

        if not waiting:
            on_settled(asked)
        for path in sorted(waiting):
            batch = [tp for tp, renamed in self._renamed.items() if renamed.home.path == path]
            sync = partial(self._file_system.sync_directory, path)
            self._directories.run_write(sync, partial(synced, homes[path], batch))

    def settle_before(self, topic_partition: TopicPartition) -> None:
        """A log of this name is about to be made: nothing of an earlier one may come back, and
        nothing is in its place. Raises StorageError. This waits for the disk.
        """
        renamed = self._renamed.get(topic_partition)
        if renamed is not None:
            self._file_system.sync_directory(renamed.home.path)
            self._settled([topic_partition])
        self.remove_unmade(topic_partition)

    def could_not_make(self, topic_partition: TopicPartition, path: str) -> None:
        """Let go what was made of a log for which there was no room, or no descriptor."""
        self._unmade[topic_partition] = path
        home = self._directories.of(path)
        if home is not None:
            self._directories.forget_gapless(home, topic_partition)
        self.remove_unmade(topic_partition)

    def remove_unmade(self, topic_partition: TopicPartition) -> None:
        """Remove what was made of it, if anything. Raises StorageError."""
        path = self._unmade.get(topic_partition)
        if path is not None:
            self._file_system.remove_tree(path)
            del self._unmade[topic_partition]

    def remove_due(self, now_ms: int, delay_ms: int) -> None:
        """Remove directories whose time has come."""
        timed = [(path, now_ms + delay_ms if at is None else at) for path, at in self._doomed]
        self._doomed = [(path, at) for path, at in timed if at > now_ms]
        for path, at in timed:
            if at <= now_ms:
                self._upkeep.add(partial(self._removal, path, at))

    def _removal(self, path: str, at_ms: int) -> tuple[Callable[[], None], Done]:
        def removed(error: StorageError | None) -> None:
            if error is not None and error.is_passing:
                self._doomed.append((path, at_ms))
            elif error is not None:
                self._directories.fail(path, error)

        return partial(self._file_system.remove_tree, path), removed

    def _settled(self, batch: list[TopicPartition]) -> None:
        for topic_partition in batch:
            renamed = self._renamed.pop(topic_partition, None)
            if renamed is not None and renamed.remove_at_ms is not None:
                self._doomed.append((renamed.path, renamed.remove_at_ms))
