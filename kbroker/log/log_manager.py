"""All logs of a broker, over one or more data directories: opened, created, deleted, and looked
after from time to time.

Law: every data directory is locked and claimed before its logs are opened, and its clean-shutdown
marker is gone before anything is written. A directory whose disk failed is offline until the broker
starts again; the others go on.

Owned by the event loop. Nothing here waits or starts anything by itself: periodic work is a method
that takes the time.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from errno import EACCES, EINVAL, EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM
from functools import partial
from uuid import UUID

from kbroker.clock import Clock
from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.deletion.partition_deletion import OnSettled, PartitionDeletion
from kbroker.log.deletion.segment_deletion import SegmentDeletion
from kbroker.log.directories.checkpoint import CheckpointError
from kbroker.log.directories.log_checkpoints import LogCheckpoints, OnStartsWritten
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.file_system import FileSystem, StorageError
from kbroker.log.format import log_directory_name
from kbroker.log.log import Log
from kbroker.log.log_state import LogEnvironment, PendingFlush
from kbroker.log.open_logs import OpenLogs
from kbroker.log.recovery.directory_scan import scan
from kbroker.log.recovery.load_progress import LoadProgress
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.log_loader import load_log
from kbroker.log.recovery.log_opening import open_logs
from kbroker.log.recovery.stray_directories import StrayDirectories
from kbroker.log.write_runner import InTurn, WriteRunner
from kbroker.model import TopicPartition

# What is wrong with one file, not with the disk under it.
_ONE_FILE = (ENOENT, EACCES, EPERM, EISDIR, ENOTDIR, ELOOP, ENAMETOOLONG, EINVAL)

# Told the path of a data directory that failed, the partitions lost with it, and the error.
OnOffline = Callable[[str, list[TopicPartition], StorageError], None]

_log = logging.getLogger(__name__)


class LogManager:
    """The logs of this broker by partition. Call `load` before anything else."""

    def __init__(
        self,
        directories: LogDirectories,
        config: LogConfig,
        topic_config: Callable[[str], TopicConfig],
        file_system: FileSystem,
        clock: Clock,
        *,
        walks_records: bool = False,
    ) -> None:
        self._directories = directories
        self._config = config
        self._topic_config = topic_config
        self._file_system = file_system
        self._clock = clock
        self._open = OpenLogs()
        upkeep = InTurn(lambda: self._directories.run_write)
        self._deletions = PartitionDeletion(file_system, self._directories, upkeep)
        self._checkpoints = LogCheckpoints(self._directories, self._open, self._flush_up_to)
        self._segment_deletion = SegmentDeletion(
            file_system,
            self._checkpoints,
            upkeep,
            self._directories.fail,
            config.producer_id_expiration_ms,
        )
        self._strays = StrayDirectories(file_system)
        self._on_offline: OnOffline = lambda _, __, ___: None
        self._environment = LogEnvironment(
            file_system=file_system,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            walks_records=walks_records,
            draw_jitter=random.randrange,
            on_failure=self._directories.fail,
            on_full=self._directories.full,
            on_gapless=self._directories.gapless,
            before_gap=self._directories.before_gap,
            before_roll=self._directories.before_roll,
            before_cut=self._directories.before_cut,
        )

    def load(
        self,
        cluster_id: str,
        broker_id: int,
        progress: LoadProgress | None = None,
        is_known: Callable[[str], bool] = lambda _: True,
    ) -> list[TopicPartition]:
        """Claim the directories for this broker and open every log in them, with
        num.recovery.threads.per.data.dir threads each. Logs of topics that are not `is_known` to
        the cluster are left alone.

        The partitions that needed recovery come back. Raises LogDirectoryError, LoadCancelledError.
        """
        now_ms = self._clock.now_ms()
        self._directories.claim(cluster_id, broker_id, now_ms)
        found = [
            (directory, self._load_requests(directory, now_ms, is_known))
            for directory in self._directories.online
        ]
        outcomes = open_logs(
            [(directory.path, requests) for directory, requests in found],
            self._environment,
            self._config.num_recovery_threads_per_data_dir,
            progress or LoadProgress(),
        )
        requests = [(directory, request) for directory, requests in found for request in requests]
        for (directory, request), outcome in zip(requests, outcomes, strict=True):
            if isinstance(outcome, Log):
                self._open.adopt_found(outcome, directory, now_ms)
            else:
                self._leave_closed(request, directory, outcome)
        self._directories.loaded()
        self._directories.check()
        for directory in self._directories:
            if directory.failure is not None:
                self._open.fail(directory, directory.failure)
        self._directories.on_offline = self._directory_offline
        self._checkpoints.forget_gone()
        return [request.topic_partition for _, request in requests if not request.was_clean]

    def write_with(self, run: WriteRunner) -> None:
        """Let `run` write checkpoints and sync logs from now on."""
        self._directories.run_write = run

    def on_directory_offline(self, callback: OnOffline) -> None:
        """Call back when a data directory fails."""
        self._on_offline = callback

    @property
    def was_clean(self) -> bool:
        """True when the last broker on these directories stopped cleanly, or there was none."""
        return self._directories.were_clean

    @property
    def online_directories(self) -> list[str]:
        """Paths of the data directories that work."""
        return [d.path for d in self._directories.online]

    def directories(self) -> list[LogDirectory]:
        """All data directories, those that have failed included."""
        return list(self._directories)

    def get_log(self, topic_partition: TopicPartition) -> Log | None:
        """The log of a partition, None where this broker has none."""
        return self._open.logs.get(topic_partition)

    def all_logs(self) -> list[Log]:
        """Every open log."""
        return list(self._open.logs.values())

    def highest_producer_id(self) -> int:
        """The highest producer id that a log remembers, -1 for none."""
        return max(
            (id_ for log in self._open.logs.values() for id_ in log.producer_state.producers),
            default=-1,
        )

    def get_or_create_log(
        self, topic_partition: TopicPartition, topic_id: UUID | None = None, *, is_new: bool = True
    ) -> Log:
        """The log of a partition, made if need be in the data directory with the fewest logs.

        One that is not `is_new` to the cluster may lie in an offline directory: it is not made
        anew. Raises KafkaError: KAFKA_STORAGE_ERROR, INCONSISTENT_TOPIC_ID.
        """
        log = self._open.logs.get(topic_partition)
        if log is None:
            self._check_may_create(topic_partition, is_new=is_new)
            log = self._create(topic_partition)
        elif log.failure is not None:  # before anybody led or followed it
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(log.failure))
        if topic_id is not None and log.topic_id != topic_id:
            if log.topic_id is not None:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID,
                    f"Log of {topic_partition} belongs to topic id {log.topic_id}, not {topic_id}",
                )
            log.assign_topic_id(topic_id)
        return log

    def delete_log(self, topic_partition: TopicPartition) -> bool:
        """Rename a partition away, for `finish_deletions` to bring to the disk and `cleanup` to
        remove; False where there is none.

        Raises KafkaError(KAFKA_STORAGE_ERROR): it is still what it was.
        """
        log = self._open.logs.get(topic_partition)
        if log is None:
            if (
                topic_partition in self._open.closed
            ):  # its files would come back with the next start
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._open.closed[topic_partition])
            with _refused():
                self._deletions.remove_unmade(topic_partition)
            self._deletions.check(topic_partition)
            return False
        with _refused():
            home = self._open.homes[topic_partition]
            self._deletions.rename_away(log, home, self._clock.now_ms())
        self._open.remove(topic_partition)
        return True

    def finish_deletions(self, on_finished: OnSettled = lambda _: None) -> None:
        """Bring deletions to the disk; `on_finished` hears of those for which that failed."""
        self._deletions.settle(
            lambda failed: self._checkpoints.forget_gone(lambda: on_finished(failed))
        )

    def update_topic_config(self, topic: str, config: TopicConfig) -> None:
        """Use new settings for all logs of a topic."""
        for topic_partition, log in self._open.logs.items():
            if topic_partition.topic == topic:
                log.update_config(config)

    def cleanup(self, now_ms: int) -> None:
        """Begin with retention, expired producers, files whose delay is over."""
        self._segment_deletion.look(self._open.online(), now_ms)
        self._deletions.remove_due(now_ms, self._config.log_segment_delete_delay_ms)

    def stop_cleanup(self) -> None:
        """Leave what `cleanup` began to the next start."""
        self._segment_deletion.stop()

    def flush_dirty_logs(self, now_ms: int) -> int:
        """Sync logs that have waited for flush.ms or gathered flush.messages, and segments that are
        full; how many it begins.
        """
        flushed = 0
        for log in self._open.online():
            waiting = log.log_end_offset - log.recovery_point
            if waiting <= 0 and not log.files.unsynced.is_due:
                continue
            is_due = (
                waiting >= log.config.flush_messages
                or now_ms - log.last_flush_ms >= log.config.flush_ms
            )
            up_to_offset = log.log_end_offset if is_due else log.segments.active.base_offset
            flushed += self._flush(log, up_to_offset, now_ms)
        return flushed

    def checkpoint_recovery_points(self) -> None:
        """Write down up to where each log is on disk."""
        self._checkpoints.write_recovery_points()

    def checkpoint_log_start_offsets(self) -> None:
        """Write down where logs start."""
        self._checkpoints.write_log_starts()

    def write_log_starts(
        self, wanted: Mapping[TopicPartition, int], on_written: OnStartsWritten
    ) -> None:
        """See `LogCheckpoints`."""
        self._checkpoints.write_log_starts(wanted, on_written)

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks written last, of all directories."""
        online = self._directories.online
        return {tp: mark for home in online for tp, mark in home.high_watermarks().items()}

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write high watermarks, each in the directory of its log."""
        self._checkpoints.write_high_watermarks(high_watermarks)

    def fail_directory(self, path: str, error: StorageError) -> None:
        """Something else than a log found out that the disk of a data directory fails."""
        self._directories.fail(path, error)

    def look_after_directories(self) -> None:
        """Notice directories that were removed, and room in those that were full; try again what
        could not be deleted.
        """
        self._directories.look_after()
        if not self._deletions.are_settled:
            self.finish_deletions()

    def shutdown(self) -> None:
        """Stop cleanly: close and flush the logs, write checkpoints and markers, release all."""
        for log in self._open.online():
            try:
                if log.unfinished_cut is not None:
                    log.truncate_to(log.unfinished_cut)
                log.close()
                log.flush(and_closed=True)
            except (KafkaError, StorageError) as error:
                failure = _as_storage_error(error, log)
                self._open.homes[log.topic_partition].may_be_clean = False
                self._directories.full(log.directory, failure, 0)
                self._directories.fail(log.directory, failure)
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self._directories.write_clean_shutdown()
        self.release()

    def _load_requests(
        self, directory: LogDirectory, now_ms: int, is_known: Callable[[str], bool]
    ) -> list[LoadRequest]:
        try:
            content = scan(directory, self._topic_config, is_known, now_ms)
        except StorageError as error:
            self._directories.fail(directory.path, error)
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
        self._open.leave_closed(request.topic_partition, request.directory, directory, error)
        if isinstance(error, StorageError) and error.errno not in _ONE_FILE:
            self._directories.fail(request.directory, error)

    def _check_may_create(self, topic_partition: TopicPartition, *, is_new: bool) -> None:
        reason = self._open.closed.get(topic_partition)
        offline = self._directories.offline_paths
        if reason is None and offline and not is_new:
            reason = (
                f"Can not create log for {topic_partition} because log directories "
                f"{','.join(offline)} are offline"
            )
        if reason is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    def _create(self, topic_partition: TopicPartition) -> Log:
        directory = self._emptiest()
        path = f"{directory.path}/{log_directory_name(topic_partition)}"
        now_ms = self._clock.now_ms()
        request = LoadRequest(
            topic_partition=topic_partition,
            directory=path,
            config=self._topic_config(topic_partition.topic),
            now_ms=now_ms,
            was_clean=True,
        )
        try:
            self._deletions.settle_before(topic_partition)
            self._forget_earlier(topic_partition, directory)
            self._strays.set_aside(topic_partition.topic)
            self._file_system.make_directory(path)
            log = load_log(request, self._environment)
            active = log.segments.active
            for part in (active.records, active.offset_index, active.time_index):
                self._file_system.open(part.path, create=True).close()
        except CheckpointError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except StorageError as error:
            self._give_up(topic_partition, path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._open.adopt(log, directory, now_ms)
        return log

    def _forget_earlier(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Checkpoints that speak of an earlier log of this name would hide records of the next."""
        if topic_partition in directory.gone:
            self._checkpoints.forget_gone()
        if topic_partition in directory.gone:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Checkpoints in {directory.path} still speak of an earlier log {topic_partition}",
            )

    def _give_up(self, topic_partition: TopicPartition, path: str, error: StorageError) -> None:
        """A log could not be made: where that passes, what was made of it goes."""
        self._directories.full(path, error, 0)
        if error.is_passing:
            try:
                self._deletions.could_not_make(topic_partition, path)
            except StorageError as second:
                error = second
        self._directories.fail(path, error)

    def _emptiest(self) -> LogDirectory:
        online = self._directories.online
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No log directory is online")
        return self._open.emptiest([d for d in online if not d.is_full] or online)

    def _flush_up_to(self, log: Log, offset: int) -> None:
        self._flush(log, offset, self._clock.now_ms())

    def _flush(self, log: Log, up_to_offset: int, now_ms: int) -> int:
        pending = log.begin_flush(up_to_offset, and_closed=True)
        if pending is None:
            return 0
        self._directories.run_write(pending.sync, partial(self._flushed, log, pending, now_ms))
        return 1

    def _flushed(
        self, log: Log, pending: PendingFlush, now_ms: int, error: StorageError | None
    ) -> None:
        """Done, or failed for good; what has to be begun again waits for the next turn."""
        if error is None:
            log.complete_flush(pending, now_ms)
        else:
            log.flush_failed(pending, error)

    def _directory_offline(self, directory: LogDirectory, error: StorageError) -> None:
        self._on_offline(directory.path, self._open.fail(directory, error), error)

    def release(self) -> None:
        """Let the directories go, writing nothing; after `shutdown` nothing is left to do."""
        self._directories.release()


@contextmanager
def _refused() -> Iterator[None]:
    """Kafka's word for what the disk refuses."""
    try:
        yield
    except StorageError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


def _as_storage_error(error: KafkaError | StorageError, log: Log) -> StorageError:
    if isinstance(error, StorageError):
        return error
    return StorageError(log.directory, "close", 0, str(error))
