"""The data directories of this broker as DescribeLogDirs shows them: the replicas in each, how far
they lag, and the room that is left (KIP-113, KIP-827).

Law: reads only. A failed directory is reported with its error and no content, because its content
cannot be trusted.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

from kbroker.errors import ErrorCode
from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.disk.file_system import StorageError
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.model import TopicPartition
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.slices import slices
from kbroker.turns import ENTRIES

INVALID_OFFSET_LAG = -1  # no such replica is online here
UNKNOWN_SIZE = -1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReplicaUsage:
    """One replica in a directory: the bytes of its segments, and the records it lacks up to the
    high watermark. A future replica, a copy on its way, lacks those up to its log's end.
    """

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool = False


@dataclass(slots=True, eq=False, repr=False)
class LogDirUsage:
    """A data directory; `total_bytes` and `usable_bytes` are those of its volume."""

    path: str  # absolute
    error_code: ErrorCode = ErrorCode.NONE
    total_bytes: int = UNKNOWN_SIZE
    usable_bytes: int = UNKNOWN_SIZE
    replicas: list[ReplicaUsage] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LogDirs:
    """Describes the directories as they are now."""

    hosted: HostedPartitions
    log_manager: LogManager

    def __len__(self) -> int:
        """The number of replicas in all directories."""
        return len(self.log_manager.all_logs()) + len(self.log_manager.all_futures())

    def describe(self, wanted: Collection[TopicPartition] | None) -> list[LogDirUsage]:
        """Every directory with the replicas in it that are `wanted` (None: all)."""
        found: list[LogDirUsage] = []
        for usage in self.described(wanted):
            if usage is None:
                continue
            if found and found[-1].path == usage.path:
                found[-1].replicas += usage.replicas
            else:
                found.append(usage)
        return found

    def described(self, wanted: Collection[TopicPartition] | None) -> Iterator[LogDirUsage | None]:
        """Describe in small steps: yield each directory without replicas, then again with some of
        them at a time, topic by topic; None while they are being found.
        """
        by_directory: dict[str, dict[str, list[Log]]] = {}
        logs = (*self.log_manager.all_logs(), *self.log_manager.all_futures())
        for number, log in enumerate(logs, 1):
            if wanted is None or log.topic_partition in wanted:
                topics = by_directory.setdefault(log.directory.rpartition("/")[0] or "/", {})
                topics.setdefault(log.topic_partition.topic, []).append(log)
            if number % ENTRIES == 0:
                yield None
        for directory in self.log_manager.directories():
            usage = self._describe(directory)
            yield usage
            if usage.error_code is ErrorCode.NONE:
                found = chain.from_iterable(by_directory.get(directory.path, {}).values())
                for some in slices(found, ENTRIES):
                    yield replace(usage, replicas=[self._replica(log) for log in some])

    def _describe(self, directory: LogDirectory) -> LogDirUsage:
        usage = LogDirUsage(os.path.abspath(directory.path))
        if directory.failure is not None:
            usage.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return usage
        try:
            usage.total_bytes = directory.file_system.total_bytes(directory.path)
            usage.usable_bytes = directory.file_system.free_bytes(directory.path)
        except StorageError:
            usage.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return usage
        return usage

    def _replica(self, log: Log) -> ReplicaUsage:
        return ReplicaUsage(
            log.topic_partition,
            sum(segment.size_bytes for segment in log.segments),
            self._offset_lag(log),
            self._is_future(log),
        )

    def _offset_lag(self, log: Log) -> int:
        partition = self.hosted.find(log.topic_partition)
        if partition is None:
            return INVALID_OFFSET_LAG
        if self._is_future(log):
            return partition.log_end_offset - log.log_end_offset
        return max(partition.high_watermark - log.log_end_offset, 0)

    def _is_future(self, log: Log) -> bool:
        return self.log_manager.futures.find(log.topic_partition) is log
