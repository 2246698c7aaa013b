"""The logs that are open, the data directory of each, and why others stay closed.

Law: a partition is in one directory. If it is found in two, neither is served, because nobody can
tell which one has the acknowledged records. A log that could not be opened is not treated as
missing: a new one in its place would hide its records. Owned by the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kbroker.clock import Clock
from kbroker.config.topic_config import TopicConfig
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_state import LogEnvironment
from kbroker.model import TopicPartition

_log = logging.getLogger(__name__)


class OpenLogs:
    """`logs` and `homes` name the same partitions; `closed` says why those in it stay closed."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.homes: dict[TopicPartition, LogDirectory] = {}
        self.closed: dict[TopicPartition, str] = {}
        # Copies that grow in other directories than the logs they are of.
        self.futures: dict[TopicPartition, Log] = {}
        self.future_homes: dict[TopicPartition, LogDirectory] = {}
        self.last_move: object = None  # another one each time a log or a copy leaves its place

    def adopt(self, log: Log, directory: LogDirectory, now_ms: int) -> None:
        """Serve a log that lies there."""
        log.flushes.count_from(now_ms)
        self.logs[log.topic_partition] = log
        self.homes[log.topic_partition] = directory

    def adopt_found(self, log: Log, directory: LogDirectory, now_ms: int) -> None:
        """Serve a log that was found at the start, unless another one lies elsewhere."""
        topic_partition = log.topic_partition
        other = self.homes.get(topic_partition)
        if other is None and topic_partition not in self.closed:
            self.adopt(log, directory, now_ms)
            return
        paths = f"{other.path if other else self.closed[topic_partition]} and {directory.path}"
        reason = (
            f"Partition {topic_partition} lies in {paths}: remove the older one and start again"
        )
        _log.error("%s. It stays closed, and its files are kept", reason)
        log.files.close_files()
        directory.could_not_open(topic_partition)
        if other is not None:
            other.could_not_open(topic_partition)
            self.remove(topic_partition).files.close_files()
        self.closed[topic_partition] = reason

    def leave_closed(
        self, topic_partition: TopicPartition, path: str, home: LogDirectory, error: Exception
    ) -> None:
        """Note why a log cannot be opened; nothing in it is changed."""
        home.could_not_open(topic_partition)
        reason = f"The log in {path} could not be opened: {error}"
        self.closed[topic_partition] = reason
        _log.error("%s. Partition %s stays closed, and its files are kept", reason, topic_partition)

    def remove(self, topic_partition: TopicPartition) -> Log:
        """Serve a log no more."""
        self.last_move = object()
        del self.homes[topic_partition]
        return self.logs.pop(topic_partition)

    def adopt_future(self, log: Log, directory: LogDirectory, now_ms: int) -> None:
        """Let a copy grow there. Its log is not cleaned meanwhile: offsets that are copied stay."""
        topic_partition = log.topic_partition
        log.flushes.count_from(now_ms)
        self.futures[topic_partition] = log
        self.future_homes[topic_partition] = directory
        self.logs[topic_partition].offsets.copied_to(log.log_end_offset)

    def remove_future(self, topic_partition: TopicPartition) -> Log:
        """Let a copy grow no more."""
        self.last_move = object()
        if topic_partition in self.logs:
            self.logs[topic_partition].offsets.copied_to(None)
        del self.future_homes[topic_partition]
        return self.futures.pop(topic_partition)

    def online(self) -> Iterator[Log]:
        """The logs in directories that work; some may go while these are looked at."""
        for log in list(self.logs.values()):
            home = self.homes.get(log.topic_partition)
            if home is not None and home.failure is None and not log.is_deleted:
                yield log

    def online_with_futures(self) -> Iterator[Log]:
        """The logs in directories that work, and then the copies in such."""
        futures = list(self.futures.values())  # those of a directory that fails are dropped
        yield from self.online()
        yield from futures

    def all(self) -> list[Log]:
        return [*self.logs.values(), *self.futures.values()]

    def is_in(self, log: Log, directory: LogDirectory) -> bool:
        """Whether a log, or a copy, is still open and lies there."""
        return self.log_in(log.topic_partition, directory) is log

    def log_in(self, topic_partition: TopicPartition, directory: LogDirectory) -> Log | None:
        """Return the log of a partition that lies there, or the copy."""
        if self.homes.get(topic_partition) is directory:
            return self.logs[topic_partition]
        if self.future_homes.get(topic_partition) is directory:
            return self.futures[topic_partition]
        return None

    def in_directory(self, directory: LogDirectory) -> Iterator[Log]:
        """List what its checkpoints speak of: a partition has its log there, or a copy."""
        for logs, homes in ((self.logs, self.homes), (self.futures, self.future_homes)):
            for topic_partition, log in logs.items():
                if homes[topic_partition] is directory:
                    yield log

    def fail(self, directory: LogDirectory, error: StorageError) -> list[TopicPartition]:
        """The logs in a directory are lost with it: which they are. Copies there are given up."""
        for topic_partition, home in list(self.future_homes.items()):
            if home is directory:
                self.remove_future(topic_partition).partition_directory.lost(error)
        lost = [tp for tp, home in self.homes.items() if home is directory]
        for topic_partition in lost:
            self.logs[topic_partition].partition_directory.lost(error)
        return lost

    def emptiest(self, directories: Sequence[LogDirectory]) -> LogDirectory:
        """The one of these with the fewest logs."""
        if len(directories) == 1:
            return directories[0]
        counts = dict.fromkeys((directory.path for directory in directories), 0)
        for home in self.homes.values():
            if home.path in counts:
                counts[home.path] += 1
        return min(directories, key=lambda directory: counts[directory.path])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ManagedLogs:
    """The logs of a broker, and what it takes to open one more."""

    directories: LogDirectories
    open: OpenLogs
    environment: LogEnvironment
    topic_config: Callable[[str], TopicConfig]
    clock: Clock
