"""The data directories of this broker, as DescribeLogDirs shows them: what is in each, how far it
lags behind, how much room is left (KIP-113, KIP-827).

Law: reads only. A directory that has failed is reported with its error and no content, because its
content cannot be trusted.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from kbroker.errors import ErrorCode
from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.file_system import StorageError
from kbroker.log.log import Log
from kbroker.log.log_manager import LogManager
from kbroker.model import TopicPartition
from kbroker.replication.hosted_partitions import HostedPartitions

INVALID_OFFSET_LAG = -1  # no such replica is online here
UNKNOWN_SIZE = -1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReplicaUsage:
    """One replica in a directory: bytes of its segments, records it lacks up to the high
    watermark; a future one, which is on its way there, up to the end of the log that it copies.
    """

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool = False


@dataclass(slots=True, eq=False, repr=False)
class LogDirUsage:
    """One data directory; `total_bytes` and `usable_bytes` are those of its volume."""

    path: str  # absolute
    error_code: ErrorCode = ErrorCode.NONE
    total_bytes: int = UNKNOWN_SIZE
    usable_bytes: int = UNKNOWN_SIZE
    replicas: list[ReplicaUsage] = field(default_factory=list)


class LogDirs:
    """Describes the directories of now."""

    def __init__(self, hosted: HostedPartitions, log_manager: LogManager) -> None:
        self._hosted = hosted
        self._log_manager = log_manager

    def describe(self, wanted: Collection[TopicPartition] | None) -> list[LogDirUsage]:
        """Every directory with the replicas of `wanted` (None: all) that are in it."""
        by_parent: dict[str, list[Log]] = {}
        for log in (*self._log_manager.all_logs(), *self._log_manager.all_futures()):
            if wanted is None or log.topic_partition in wanted:
                by_parent.setdefault(log.directory.rpartition("/")[0] or "/", []).append(log)
        return [
            self._describe(directory, by_parent.get(directory.path, []))
            for directory in self._log_manager.directories()
        ]

    def _describe(self, directory: LogDirectory, logs: Iterable[Log]) -> LogDirUsage:
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
        usage.replicas = [
            ReplicaUsage(
                log.topic_partition,
                sum(segment.size_bytes for segment in log.segments),
                self._offset_lag(log),
                self._is_future(log),
            )
            for log in logs
        ]
        return usage

    def _offset_lag(self, log: Log) -> int:
        partition = self._hosted.find(log.topic_partition)
        if partition is None:
            return INVALID_OFFSET_LAG
        if self._is_future(log):
            return partition.log_end_offset - log.log_end_offset
        return max(partition.high_watermark - log.log_end_offset, 0)

    def _is_future(self, log: Log) -> bool:
        return self._log_manager.futures.find(log.topic_partition) is log
