"""Copies of logs on their way to another data directory (Kafka's future logs), and the moment at
which a copy takes the place of its log.

Law: at every moment one directory on the disks has all that was acknowledged, and its name says so.
The copy is on the disk before its log gives the name up. The log is renamed to `-replaced`, with
the uuid of the copy, and that name is on the disk before the copy gets the partition's: so a start
finds the log itself, or a `-replaced` directory whose `-future` one has everything, or two of which
the `-replaced` one is the older. That one goes when the copy's new name is on the disk, not before.
Kafka renames the copy first, and its start refuses what a crash leaves between; that name of ours
is refused by it as well, and is there for no more than this moment.

Owned by the event loop. `replace` waits for the disk: for what came since `settle`, and for a name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import EIO
from functools import partial
from uuid import uuid4

from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.disk.file_system import StorageError
from kbroker.log.disk.format import (
    LOG_START_OFFSET_CHECKPOINT_FILE,
    delete_directory_name,
    log_directory_name,
    replaced_directory_name,
)
from kbroker.log.manager.log_checkpoints import LogCheckpoints
from kbroker.log.manager.log_creation import LogCreation
from kbroker.log.manager.open_logs import ManagedLogs
from kbroker.log.manager.partition_deletion import PartitionDeletion
from kbroker.log.partition.log import Log
from kbroker.model import TopicPartition


class FutureLogs:
    """The copies of a broker by partition; `LogManager` has it."""

    def __init__(
        self,
        logs: ManagedLogs,
        creation: LogCreation,
        deletions: PartitionDeletion,
        checkpoints: LogCheckpoints,
    ) -> None:
        self._open = logs.open
        self._directories = logs.directories
        self._file_system = logs.environment.file_system
        self._clock = logs.clock
        self._creation = creation
        self._deletions = deletions
        self._checkpoints = checkpoints
        self.find = logs.open.futures.get  # the copy of a partition, None if there is none

    def directory(self, path: str) -> LogDirectory | None:
        """The data directory at an absolute path."""
        return next((d for d in self._directories if os.path.abspath(d.path) == path), None)

    def holds_log(self, topic_partition: TopicPartition, directory: LogDirectory) -> bool:
        return self._open.homes.get(topic_partition) is directory

    def holds(self, topic_partition: TopicPartition, directory: LogDirectory) -> bool:
        return self._open.future_homes.get(topic_partition) is directory

    def prefer(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Make the log there, once it has to be made."""
        self._creation.preferred[topic_partition] = directory

    def forget_earlier(
        self, topic_partition: TopicPartition, directory: LogDirectory, done: Callable[[], None]
    ) -> bool:
        """Have the checkpoints of a directory forget a log that has left it, so that one of its
        name can be made; `done` is called when they have tried. False if they have.
        """
        if topic_partition not in directory.gone or directory.failure is not None:
            return False
        self._checkpoints.forget_gone(done)
        return True

    def create(self, topic_partition: TopicPartition, directory: LogDirectory) -> Log:
        """Begin a copy there. KafkaError: KAFKA_STORAGE_ERROR."""
        future = self._creation.create_future(topic_partition, directory)
        topic_id = self._open.logs[topic_partition].topic_id
        if topic_id is not None:
            future.assign_topic_id(topic_id)
        return future

    def drop(self, topic_partition: TopicPartition) -> None:
        """Give a copy up, if there is one; its files go later."""
        if topic_partition in self._open.futures:
            home = self._open.future_homes[topic_partition]
            future = self._open.remove_future(topic_partition)
            self._leave(topic_partition, home)
            self._retire(future, home)

    def settle(self, topic_partition: TopicPartition, done: Callable[[], None]) -> None:
        """Bring what a copy has to the disk, in the background, and call `done`: what is left for
        `replace` is little then. A sync that fails takes the directory offline.
        """
        future, home = self._open.futures[topic_partition], self._open.future_homes[topic_partition]
        pending = future.flushes.begin(and_closed=True)
        start_offset = self._open.logs[topic_partition].log_start_offset

        def write() -> None:
            if pending is not None:
                pending.sync()
            _note_start(home, future, start_offset)

        def written(error: StorageError | None) -> None:
            if error is not None and pending is not None:
                future.flushes.failed(pending, error)
            elif error is not None:
                future.partition_directory.failed(error)
            elif pending is not None:
                future.flushes.complete(pending, self._clock.now_ms())
            done()

        self._directories.run_write(write, written)

    def replace(self, topic_partition: TopicPartition) -> Log:
        """Let the copy, which has all offsets, take the place of its log; the copy. Raises
        KafkaError(KAFKA_STORAGE_ERROR): the log is still what it was, or its directory has failed.
        """
        log, future = self._open.logs[topic_partition], self._open.futures[topic_partition]
        home = self._open.homes[topic_partition]
        target = self._open.future_homes[topic_partition]
        assert future.log_end_offset == log.log_end_offset, (future.log_end_offset, topic_partition)
        with future.partition_directory.refusals():
            future.become_copy_of(log)
            future.flush(and_closed=True)
            _note_start(target, future, log.log_start_offset)
        replaced = f"{home.path}/{replaced_directory_name(topic_partition, future.directory)}"
        name = f"{target.path}/{log_directory_name(topic_partition)}"
        self._make_way(log, home, replaced)
        try:
            self._file_system.rename(future.directory, name)
        except StorageError as error:
            self._undo(log, home, replaced)
            raise future.partition_directory.failed(error) from error
        self._switch(log, future, target)
        self._leave(topic_partition, home)
        self._follow(log, replaced)
        self._follow(future, name)
        sync = partial(self._file_system.sync_directory, target.path)
        self._directories.run_write(sync, partial(self._switched, log, home, target))
        return future

    def _make_way(self, log: Log, home: LogDirectory, replaced: str) -> None:
        """Give the name up, durably. Raises KafkaError(KAFKA_STORAGE_ERROR) as `replace`."""
        with log.partition_directory.refusals():
            self._file_system.rename(log.directory, replaced)
        try:
            self._file_system.sync_directory(home.path)
        except StorageError as error:
            self._undo(log, home, replaced)
            raise log.partition_directory.failed(error) from error

    def _undo(self, log: Log, home: LogDirectory, replaced: str) -> None:
        """The log goes on under its name: by the other one, a start would take it for the older."""
        try:
            self._file_system.rename(replaced, log.directory)
        except StorageError as error:
            log.partition_directory.failed(
                StorageError(log.directory, error.operation, EIO, str(error))
            )
            return
        log.files.unsynced.place_changed()  # no record after this is safe without the name
        try:
            self._file_system.sync_directory(home.path)
        except StorageError as error:
            log.partition_directory.failed(error)

    def _switch(self, log: Log, future: Log, target: LogDirectory) -> None:
        topic_partition = log.topic_partition
        self._open.remove_future(topic_partition)
        self._open.logs[topic_partition] = future
        self._open.homes[topic_partition] = target
        future.take_place_of(log)

    def _switched(
        self, log: Log, home: LogDirectory, target: LogDirectory, error: StorageError | None
    ) -> None:
        if error is None:
            self._retire(log, home)
        else:  # the next start finds both, and knows which one it is
            self._directories.fail(target.path, error)

    def _leave(self, topic_partition: TopicPartition, home: LogDirectory) -> None:
        """Nothing of that name is in a directory any more, and nothing true is known of it."""
        home.gone.add(topic_partition)
        self._directories.forget_gapless(home, topic_partition)

    def _retire(self, log: Log, home: LogDirectory) -> None:
        """Rename it to what is to be removed, and forget what checkpoints say of it."""
        path = f"{home.path}/{delete_directory_name(log.topic_partition, uuid4())}"
        log.partition_directory.deleted()
        try:
            self._file_system.rename(log.directory, path)
        except StorageError as error:
            log.files.close_files()
            self._directories.fail(home.path, error)
            return
        self._follow(log, path)
        self._deletions.doom(path)
        self._checkpoints.forget_gone()

    def _follow(self, log: Log, path: str) -> None:
        try:
            log.move_to(path)
        except StorageError as error:
            self._directories.fail(path, error)


def _note_start(home: LogDirectory, future: Log, start_offset: int) -> None:
    """Note a start within a segment, which only the checkpoint says. Raises StorageError."""
    starts, topic_partition = home.noted[LOG_START_OFFSET_CHECKPOINT_FILE], future.topic_partition
    is_inside = start_offset > future.segments[0].base_offset
    if is_inside and starts.in_file(topic_partition) != start_offset:
        starts.note(topic_partition, start_offset)
