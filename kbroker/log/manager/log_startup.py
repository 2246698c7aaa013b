"""The start of a broker's logs: looks through all data directories and opens what is in them.

Law: one broken file costs its partition; a disk that refuses costs the directory, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from errno import EACCES, EINVAL, EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM

from kbroker.errors import KafkaError
from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.disk.checkpoint import CheckpointError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.manager.open_logs import ManagedLogs
from kbroker.log.manager.partition_deletion import PartitionDeletion
from kbroker.log.manager.replaced_directories import StrayDirectories, finish_replacements
from kbroker.log.partition.log import Log
from kbroker.log.recovery.directory_scan import DirectoryContent, scan
from kbroker.log.recovery.load_progress import LoadProgress
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.log_loader import load_log
from kbroker.log.recovery.log_opening import open_logs
from kbroker.model import TopicPartition

# What is wrong with one file, not with the disk under it.
_ONE_FILE = (ENOENT, EACCES, EPERM, EISDIR, ENOTDIR, ELOOP, ENAMETOOLONG, EINVAL)

_log = logging.getLogger(__name__)


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
        closed = finish_replacements(logs)
        found: list[tuple[LogDirectory, list[LoadRequest]]] = []
        futures: list[tuple[LogDirectory, list[LoadRequest]]] = []
        for directory in logs.directories.online:
            content = self._content(directory, now_ms, is_known)
            found.append((directory, content.requests))
            futures.append((directory, content.futures))
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
        for topic_partition, path in closed.items():
            home = logs.directories.of(path)
            if topic_partition not in logs.open.logs and home is not None:
                reason = LookupError("the copy that has taken its place is in an offline directory")
                logs.open.leave_closed(topic_partition, path, home, reason)
        self._open_futures(futures, now_ms)
        logs.directories.loaded()
        logs.directories.check()
        for directory in logs.directories:
            if directory.failure is not None:
                logs.open.fail(directory, directory.failure)
        return [request.topic_partition for _, request in requests if not request.was_clean]

    def _open_futures(
        self, found: list[tuple[LogDirectory, list[LoadRequest]]], now_ms: int
    ) -> None:
        """Copies of logs that are open grow on; others may be all that is left, and stay."""
        for directory, requests in found:
            for request in requests:
                log = self._logs.open.logs.get(request.topic_partition)
                if log is None or directory.failure is not None:
                    _log.warning("Ignoring %s: its log is not open", request.directory)
                    directory.could_not_open(request.topic_partition)
                else:
                    self._open_future(log, request, directory, now_ms)

    def _open_future(
        self, log: Log, request: LoadRequest, directory: LogDirectory, now_ms: int
    ) -> None:
        logs, topic_partition = self._logs.open, request.topic_partition
        if logs.homes[topic_partition] is directory or topic_partition in logs.futures:
            # Not even opened: what is noted in a directory of that name is the other one's.
            self._give_up(request, directory, "it is of no use")
            return
        try:
            future = load_log(request, self._logs.environment)
            if not request.was_clean:  # segments may be missing that were not on the disk
                future.truncate_to(future.offsets.recovery_point)
            # What the log has lost gets other records, under the same epoch if nobody else could
            # lead: once they are appended, nothing tells them apart.
            future.truncate_to(log.log_end_offset)
            if not _is_still_a_copy(log, future):
                future.truncate_fully_and_start_at(log.log_start_offset)
        except (StorageError, CheckpointError, KafkaError) as error:
            self._give_up(request, directory, str(error))
            return
        if future.topic_id in (None, log.topic_id):
            logs.adopt_future(future, directory, now_ms)
            return
        future.files.close_files()
        self._give_up(request, directory, "it is of another topic of the name")

    def _give_up(self, request: LoadRequest, directory: LogDirectory, why: str) -> None:
        """Let a copy go, and what is noted of it, unless something of that name stays there."""
        logs, topic_partition = self._logs.open, request.topic_partition
        _log.warning("Giving up the copy %s: %s", request.directory, why)
        self._deletions.doom(request.directory)
        if directory not in (logs.homes[topic_partition], logs.future_homes.get(topic_partition)):
            directory.gone.add(topic_partition)

    def _content(
        self, directory: LogDirectory, now_ms: int, is_known: Callable[[str], bool]
    ) -> DirectoryContent:
        try:
            content = scan(directory, self._logs.topic_config, is_known, now_ms)
        except StorageError as error:
            self._logs.directories.fail(directory.path, error)
            return DirectoryContent()
        for path in content.doomed:
            self._deletions.doom(path)
        for topic, path in content.strays:
            self._strays.add(topic, path)
        return content

    def _leave_closed(
        self,
        request: LoadRequest,
        directory: LogDirectory,
        error: StorageError | CheckpointError | KafkaError,
    ) -> None:
        self._logs.open.leave_closed(request.topic_partition, request.directory, directory, error)
        if isinstance(error, StorageError) and error.errno not in _ONE_FILE:
            self._logs.directories.fail(request.directory, error)


def _is_still_a_copy(log: Log, future: Log) -> bool:
    """Whether a copy has as many bytes as its log. While its directory was offline, the log may
    have been compacted: a record that went since would be back, and what had deleted it gone.
    """
    start, end = max(each.segments[0].base_offset for each in (log, future)), future.log_end_offset
    sizes = {
        sum(s.position_of(end) - s.position_of(start) for s in each.segments.between(start, end))
        for each in (log, future)
    }
    log.files.close_files()  # an idle log holds no descriptor
    future.files.close_files()
    return len(sizes) == 1
