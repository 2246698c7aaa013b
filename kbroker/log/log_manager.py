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
from collections.abc import Callable, Iterable, Mapping, Sequence
from errno import EACCES, EINVAL, EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM
from functools import partial
from uuid import UUID, uuid4

from kbroker.clock import Clock
from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.checkpoint import CheckpointError, MetaProperties
from kbroker.log.doomed_directories import DoomedDirectories
from kbroker.log.file_system import FileSystem, StorageError
from kbroker.log.format import (
    LOG_START_OFFSET_CHECKPOINT_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
    delete_directory_name,
    log_directory_name,
)
from kbroker.log.log import Log
from kbroker.log.log_directories import LogDirectories
from kbroker.log.log_directory import LogDirectory
from kbroker.log.log_flush import recovery_point_to_note
from kbroker.log.log_state import LogEnvironment, PendingFlush
from kbroker.log.recovery.directory_scan import scan
from kbroker.log.recovery.load_progress import LoadProgress
from kbroker.log.recovery.log_loader import LoadRequest, load_log
from kbroker.log.recovery.log_opening import open_logs
from kbroker.log.recovery.stray_directories import StrayDirectories
from kbroker.log.write_runner import WriteRunner
from kbroker.model import TopicPartition

# What is wrong with one file, not with the disk under it.
_ONE_FILE = (ENOENT, EACCES, EPERM, EISDIR, ENOTDIR, ELOOP, ENAMETOOLONG, EINVAL)

# Told the path of a data directory that failed, the partitions lost with it, and the error.
OnOffline = Callable[[str, list[TopicPartition], StorageError], None]

_log = logging.getLogger(__name__)


class LogManager:
    """The logs of this broker by partition.

    Call `open_directories`, then `load`, before anything else.
    """

    def __init__(
        self,
        log_dirs: Sequence[str],
        config: LogConfig,
        topic_config: Callable[[str], TopicConfig],
        file_system: FileSystem,
        clock: Clock,
        *,
        walks_records: bool = False,
    ) -> None:
        paths = [path.rstrip("/") or "/" for path in log_dirs]
        self._directories = LogDirectories(file_system, paths)
        self._config = config
        self._topic_config = topic_config
        self._file_system = file_system
        self._clock = clock
        self._logs: dict[TopicPartition, Log] = {}
        self._homes: dict[TopicPartition, LogDirectory] = {}
        self._unopened: dict[TopicPartition, str] = {}  # why each of them stays closed
        self._doomed_directories = DoomedDirectories(file_system)
        self._strays = StrayDirectories(file_system)
        self._was_clean = True
        self._required: str | None = None
        self._on_offline: OnOffline = lambda _, __, ___: None
        self._environment = LogEnvironment(
            file_system=file_system,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            walks_records=walks_records,
            draw_jitter=random.randrange,
            on_failure=self._directories.fail,
            on_full=self._directories.full,
        )

    def open_directories(self, required: str | None = None) -> MetaProperties | None:
        """Lock all data directories; whose they are, None while nobody has used them.

        One that cannot be used is offline. Raises LogDirectoryError where that is the `required`
        one, or where no other is left.
        """
        self._required = required
        meta = self._directories.lock_all(required)
        self._was_clean = self._directories.were_clean
        return meta

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
        self._directories.claim(cluster_id, broker_id, now_ms, self._required)
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
                self._adopt_loaded(outcome, directory)
            else:
                self._leave_closed(request, directory, outcome)
        self._directories.check(self._required)
        self._fail_logs_of_failed_directories()
        for directory in self._directories.online:
            directory.loaded()
        self._directories.on_offline = self._directory_offline
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
        return self._was_clean

    @property
    def online_directories(self) -> list[str]:
        """Paths of the data directories that work."""
        return [d.path for d in self._directories.online]

    def directories(self) -> list[LogDirectory]:
        """All data directories, those that have failed included."""
        return list(self._directories)

    def get_log(self, topic_partition: TopicPartition) -> Log | None:
        """The log of a partition, None where this broker has none."""
        return self._logs.get(topic_partition)

    def all_logs(self) -> list[Log]:
        """Every open log."""
        return list(self._logs.values())

    def highest_producer_id(self) -> int:
        """The highest producer id that a log remembers, -1 for none."""
        return max(
            (id_ for log in self._logs.values() for id_ in log.producer_state.producers), default=-1
        )

    def get_or_create_log(
        self, topic_partition: TopicPartition, topic_id: UUID | None = None, *, is_new: bool = True
    ) -> Log:
        """The log of a partition, made if need be in the data directory with the fewest logs.

        One that is not `is_new` to the cluster may lie in an offline directory: it is not made
        anew. Raises KafkaError: KAFKA_STORAGE_ERROR, INCONSISTENT_TOPIC_ID.
        """
        log = self._logs.get(topic_partition)
        if log is None:
            self._check_may_create(topic_partition, is_new=is_new)
            log = self._create(topic_partition)
        if topic_id is not None and log.topic_id != topic_id:
            if log.topic_id is not None:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID,
                    f"Log of {topic_partition} belongs to topic id {log.topic_id}, not {topic_id}",
                )
            log.assign_topic_id(topic_id)
        return log

    def delete_log(self, topic_partition: TopicPartition) -> bool:
        """Rename a partition away, durably, for `cleanup` to remove; False where there is none."""
        log = self._logs.get(topic_partition)
        home = self._homes.get(topic_partition)
        if log is None or home is None:
            if topic_partition in self._unopened:  # its files would come back with the next start
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._unopened[topic_partition])
            return False
        target = f"{home.path}/{delete_directory_name(topic_partition, uuid4())}"
        delay_ms = log.config.file_delete_delay_ms
        try:
            self._file_system.rename(log.directory, target)
            # Else a topic of this name made later could find these records after a power loss.
            self._file_system.sync_directory(home.path)
        except StorageError as error:
            log.close_files()
            self._directories.fail(log.directory, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        del self._logs[topic_partition], self._homes[topic_partition]  # it stays where that failed
        log.is_deleted = True
        home.gone.add(topic_partition)
        log.move_to(target)
        self._doomed_directories.add(target, self._clock.now_ms() + delay_ms)
        return True

    def update_topic_config(self, topic: str, config: TopicConfig) -> None:
        """Use new settings for all logs of a topic."""
        for topic_partition, log in self._logs.items():
            if topic_partition.topic == topic:
                log.update_config(config)

    def cleanup(self, now_ms: int) -> int:
        """Retention, expired producers, files whose delay is over; how many segments went."""
        removed = 0
        expiration_ms = self._config.producer_id_expiration_ms
        for log in self._online_logs():
            try:
                removed += log.delete_old_segments(now_ms)
                log.remove_deleted_files(now_ms)
            except KafkaError:
                continue  # said by the log; its directory is offline now
            except StorageError as error:
                self._directories.fail(log.directory, error)
            if log.producer_state.producers:
                log.producer_state.remove_expired(now_ms, expiration_ms)
        self._doomed_directories.remove_due(
            now_ms, self._config.log_segment_delete_delay_ms, self._directories.fail
        )
        return removed

    def flush_dirty_logs(self, now_ms: int) -> int:
        """Sync logs that have waited for flush.ms or gathered flush.messages, and segments that are
        full; how many it begins.
        """
        flushed = 0
        for log in self._online_logs():
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
        self._checkpoint(RECOVERY_POINT_CHECKPOINT_FILE, recovery_point_to_note)

    def checkpoint_log_start_offsets(self, on_written: Callable[[], None] | None = None) -> None:
        """Write down the log starts inside a segment; file names tell the others. `on_written` is
        called when that is done.
        """

        def start(log: Log) -> int | None:
            inside = log.log_start_offset > log.segments[0].base_offset
            if not inside and not log.files.unsynced.has_removed:
                return None
            # A log that ends before its start after a power loss would show its records again.
            if log.log_start_offset > log.recovery_point:
                self._flush(log, log.log_start_offset, self._clock.now_ms())
            return log.log_start_offset

        self._checkpoint(LOG_START_OFFSET_CHECKPOINT_FILE, start)
        if on_written is not None:
            self._directories.run_write(lambda: None, lambda _: on_written())

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks written last, of all directories."""
        found: dict[TopicPartition, int] = {}
        for directory in self._directories.online:
            found.update(directory.high_watermarks())
        return found

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write high watermarks, each in the directory of its log; those without a log stay out."""
        self._checkpoint(
            REPLICATION_OFFSET_CHECKPOINT_FILE, lambda log: high_watermarks.get(log.topic_partition)
        )

    def fail_directory(self, path: str, error: StorageError) -> None:
        """Something else than a log found out that the disk of a data directory fails."""
        self._directories.fail(path, error)

    def look_after_directories(self) -> None:
        """Notice directories that were removed, and room in those that were full."""
        self._directories.look_after()

    def shutdown(self) -> None:
        """Stop cleanly: close and flush the logs, write checkpoints and markers, release all."""
        for log in self._online_logs():
            try:
                log.close()
                log.flush(and_closed=True)
            except (KafkaError, StorageError) as error:
                failure = _as_storage_error(error, log)
                self._homes[log.topic_partition].may_be_clean = False
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
            self._doomed_directories.add(path)
        for topic, path in content.strays:
            self._strays.add(topic, path)
        return content.requests

    def _fail_logs_of_failed_directories(self) -> None:
        for topic_partition, home in self._homes.items():
            log = self._logs[topic_partition]
            log.failure = log.failure or home.failure

    def _leave_closed(
        self,
        request: LoadRequest,
        directory: LogDirectory,
        error: StorageError | CheckpointError | KafkaError,
    ) -> None:
        """One broken file costs its partition; a disk that refuses costs the directory, as in
        Kafka. Nothing in it is changed.
        """
        topic_partition = request.topic_partition
        directory.could_not_open(topic_partition)
        reason = f"The log in {request.directory} could not be opened: {error}"
        self._unopened[topic_partition] = reason
        _log.error("%s. Partition %s stays closed and its files stay", reason, topic_partition)
        if isinstance(error, StorageError) and error.errno not in _ONE_FILE:
            self._directories.fail(request.directory, error)

    def _adopt_loaded(self, log: Log, directory: LogDirectory) -> None:
        topic_partition = log.topic_partition
        other = self._homes.get(topic_partition)
        if other is None and topic_partition not in self._unopened:
            self._adopt(log, directory)
            return
        paths = f"{other.path if other else self._unopened[topic_partition]} and {directory.path}"
        reason = (
            f"Partition {topic_partition} lies in {paths}: remove the older one and start again"
        )
        _log.error("%s. It stays closed and its files stay", reason)
        log.close_files()
        for home in (other, directory):
            if home is not None:
                home.could_not_open(topic_partition)
        if other is not None:
            self._logs.pop(topic_partition).close_files()
            del self._homes[topic_partition]
        self._unopened[topic_partition] = reason

    def _adopt(self, log: Log, directory: LogDirectory) -> None:
        log.last_flush_ms = self._clock.now_ms()
        self._logs[log.topic_partition] = log
        self._homes[log.topic_partition] = directory

    def _check_may_create(self, topic_partition: TopicPartition, *, is_new: bool) -> None:
        reason = self._unopened.get(topic_partition)
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
            self._strays.set_aside(topic_partition.topic)
            self._file_system.make_directory(path)
            log = load_log(request, self._environment)
            active = log.segments.active
            for part in (active.records, active.offset_index, active.time_index):
                self._file_system.open(part.path, create=True).close()
        except CheckpointError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except StorageError as error:
            self._give_up(path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._adopt(log, directory)
        if topic_partition in directory.gone:  # the checkpoints speak of an earlier log
            directory.gone.discard(topic_partition)
            self.checkpoint_recovery_points()
            self.checkpoint_log_start_offsets()
        return log

    def _give_up(self, path: str, error: StorageError) -> None:
        """A log could not be made: a full disk gets back what it took of it."""
        if error.is_out_of_space:
            self._directories.full(path, error, 0)
            try:
                self._file_system.remove_tree(path)
            except StorageError as second:
                error = second
        self._directories.fail(path, error)

    def _emptiest(self) -> LogDirectory:
        online = self._directories.online
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No log directory is online")
        online = [directory for directory in online if not directory.is_full] or online
        if len(online) == 1:
            return online[0]
        counts = dict.fromkeys((d.path for d in online), 0)
        for home in self._homes.values():
            if home.path in counts:
                counts[home.path] += 1
        return min(online, key=lambda directory: counts[directory.path])

    def _checkpoint(self, file: str, offset_of_log: Callable[[Log], int | None]) -> None:
        def offsets_of(directory: LogDirectory) -> dict[TopicPartition, int]:
            return {
                topic_partition: offset
                for topic_partition, log in self._logs.items()
                if self._homes[topic_partition] is directory
                and (offset := offset_of_log(log)) is not None
            }

        self._directories.write_offsets(file, offsets_of)

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

    def _online_logs(self) -> Iterable[Log]:
        for topic_partition, log in list(self._logs.items()):
            if self._homes[topic_partition].failure is None:
                yield log

    def _directory_offline(self, directory: LogDirectory, error: StorageError) -> None:
        lost = [tp for tp, home in self._homes.items() if home is directory]
        for topic_partition in lost:
            log = self._logs[topic_partition]
            log.failure = log.failure or error
        self._on_offline(directory.path, lost, error)

    def release(self) -> None:
        """Let the directories go, writing nothing; after `shutdown` nothing is left to do."""
        self._directories.release()


def _as_storage_error(error: KafkaError | StorageError, log: Log) -> StorageError:
    if isinstance(error, StorageError):
        return error
    return StorageError(log.directory, "close", 0, str(error))
