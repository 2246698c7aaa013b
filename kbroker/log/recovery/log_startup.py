"""The start of a broker's logs: looks through all data directories and opens what is in them.

Law: one broken file costs its partition; a disk that refuses costs the directory, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from errno import EACCES, EINVAL, EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM

from kbroker.errors import KafkaError
from kbroker.log.deletion.partition_deletion import PartitionDeletion
from kbroker.log.directories.checkpoint import CheckpointError
from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.file_system import StorageError
from kbroker.log.log import Log
from kbroker.log.open_logs import ManagedLogs
from kbroker.log.recovery.directory_scan import scan
from kbroker.log.recovery.load_progress import LoadProgress
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.log_opening import open_logs
from kbroker.log.recovery.stray_directories import StrayDirectories
from kbroker.model import TopicPartition

# What is wrong with one file, not with the disk under it.
_ONE_FILE = (ENOENT, EACCES, EPERM, EISDIR, ENOTDIR, ELOOP, ENAMETOOLONG, EINVAL)


class LogStartup:
    """Used once, by the log manager."""

    def __init__(
        self,
        logs: ManagedLogs,
        deletions: PartitionDeletion,
        strays: StrayDirectories,
        threads_per_directory: int,
    ) -> None:
        """Half-deleted logs go to `deletions`, those of unknown partitions to `strays`."""
        self._logs = logs
        self._deletions = deletions
        self._strays = strays
        self._threads_per_directory = threads_per_directory

    def open_all(
        self, progress: LoadProgress, is_known: Callable[[str], bool]
    ) -> list[TopicPartition]:
        """Open every log of a topic that `is_known` to the cluster, in directories that are claimed
        for this broker; those that needed recovery. Raises LoadCancelledError.
        """
        logs = self._logs
        now_ms = logs.clock.now_ms()
        found = [
            (directory, self._load_requests(directory, now_ms, is_known))
            for directory in logs.directories.online
        ]
        outcomes = open_logs(
            [(directory.path, requests) for directory, requests in found],
            logs.environment,
            self._threads_per_directory,
            progress,
        )
        requests = [(directory, request) for directory, requests in found for request in requests]
        for (directory, request), outcome in zip(requests, outcomes, strict=True):
            if isinstance(outcome, Log):
                logs.open.adopt_found(outcome, directory, now_ms)
            else:
                self._leave_closed(request, directory, outcome)
        logs.directories.loaded()
        logs.directories.check()
        for directory in logs.directories:
            if directory.failure is not None:
                logs.open.fail(directory, directory.failure)
        return [request.topic_partition for _, request in requests if not request.was_clean]

    def _load_requests(
        self, directory: LogDirectory, now_ms: int, is_known: Callable[[str], bool]
    ) -> list[LoadRequest]:
        try:
            content = scan(directory, self._logs.topic_config, is_known, now_ms)
        except StorageError as error:
            self._logs.directories.fail(directory.path, error)
            return []
        for path in content.doomed:
            self._deletions.doom(path)
        for topic, path in content.strays:
            self._strays.add(topic, path)
        return content.requests

    def _leave_closed(
        self,
        request: LoadRequest,
        directory: LogDirectory,
        error: StorageError | CheckpointError | KafkaError,
    ) -> None:
        """One broken file costs its partition; a disk that refuses costs the directory, as in
        Kafka.
        """
        self._logs.open.leave_closed(request.topic_partition, request.directory, directory, error)
        if isinstance(error, StorageError) and error.errno not in _ONE_FILE:
            self._logs.directories.fail(request.directory, error)
