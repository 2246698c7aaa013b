"""Makes the log of a partition that this broker has none of yet.

Law: nothing of an earlier log of the same name may show in it: deletions are on the disk before,
checkpoints have forgotten it, directories of strangers are set aside. If it cannot be made,
nothing of it stays.
"""

from __future__ import annotations

from uuid import uuid4

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.disk.checkpoint import CheckpointError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.disk.format import future_directory_name, log_directory_name
from kbroker.log.manager.log_checkpoints import LogCheckpoints
from kbroker.log.manager.open_logs import ManagedLogs
from kbroker.log.manager.partition_deletion import PartitionDeletion
from kbroker.log.manager.replaced_directories import StrayDirectories
from kbroker.log.partition.log import Log
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.log_loader import load_log
from kbroker.model import TopicPartition


class LogCreation:
    """Makes logs, for the log manager."""

    def __init__(
        self,
        logs: ManagedLogs,
        deletions: PartitionDeletion,
        checkpoints: LogCheckpoints,
        strays: StrayDirectories,
    ) -> None:
        self._logs = logs
        self._deletions = deletions
        self._checkpoints = checkpoints
        self._strays = strays
        # Where logs are to be made that do not exist yet, as an administrator wants it.
        self.preferred: dict[TopicPartition, LogDirectory] = {}

    def create(self, topic_partition: TopicPartition, *, is_new: bool) -> Log:
        """Make a log that is not open, in the directory that is preferred for it, else in the one
        with the fewest.

        One that is not `is_new` to the cluster may lie in an offline directory: it is not made
        again. KafkaError: KAFKA_STORAGE_ERROR.
        """
        self._check_may_create(topic_partition, is_new=is_new)
        directory = self.preferred.get(topic_partition)
        if directory is None or directory.failure is not None:
            directory = self._emptiest()
        log = self._make(topic_partition, directory, log_directory_name(topic_partition))
        self._logs.open.adopt(log, directory, self._logs.clock.now_ms())
        self.preferred.pop(topic_partition, None)
        return log

    def create_future(self, topic_partition: TopicPartition, directory: LogDirectory) -> Log:
        """Make an empty log there, to become a copy of the one that is open. None is made while a
        directory is offline, which may hold one. KafkaError: KAFKA_STORAGE_ERROR.
        """
        self._check_may_create(topic_partition, is_new=False)
        name = future_directory_name(topic_partition, uuid4())
        log = self._make(topic_partition, directory, name)
        self._logs.open.adopt_future(log, directory, self._logs.clock.now_ms())
        self.preferred.pop(topic_partition, None)
        return log

    def _make(self, topic_partition: TopicPartition, directory: LogDirectory, name: str) -> Log:
        path = f"{directory.path}/{name}"
        request = LoadRequest(
            topic_partition=topic_partition,
            directory=path,
            config=self._logs.topic_config(topic_partition.topic),
            now_ms=self._logs.clock.now_ms(),
            was_clean=True,
        )
        file_system = self._logs.environment.file_system
        try:
            self._deletions.settle_before(topic_partition)
            self._forget_earlier(topic_partition, directory)
            self._strays.set_aside(topic_partition.topic)
            file_system.make_directory(path)
            log = load_log(request, self._logs.environment)
            active = log.segments.active
            for part in (active.records, active.offset_index, active.time_index):
                file_system.open(part.path, create=True).close()
        except CheckpointError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except StorageError as error:
            self._give_up(topic_partition, path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        return log

    def _check_may_create(self, topic_partition: TopicPartition, *, is_new: bool) -> None:
        reason = self._logs.open.closed.get(topic_partition)
        offline = self._logs.directories.offline_paths
        if reason is None and offline and not is_new:
            reason = (
                f"Can not create log for {topic_partition} because log directories "
                f"{','.join(offline)} are offline"
            )
        if reason is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    def _forget_earlier(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Checkpoints that mention an earlier log of this name would hide records of the next."""
        if topic_partition in directory.gone:
            self._checkpoints.forget_gone()
        if topic_partition in directory.gone:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Checkpoints in {directory.path} still name an earlier log {topic_partition}",
            )

    def _give_up(self, topic_partition: TopicPartition, path: str, error: StorageError) -> None:
        """A log could not be made: if that passes, what was made of it goes."""
        self._logs.directories.full(path, error, 0)
        if error.is_passing:
            try:
                self._deletions.could_not_make(topic_partition, path)
            except StorageError as second:
                error = second
        self._logs.directories.fail(path, error)

    def _emptiest(self) -> LogDirectory:
        online = self._logs.directories.online
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No log directory is online")
        return self._logs.open.emptiest([d for d in online if not d.is_full] or online)
