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
from concurrent.futures import Executor
from functools import partial
from uuid import UUID, uuid4

from kbroker.clock import Clock
from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.checkpoint import CheckpointError, MetaProperties
from kbroker.log.file_system import FileSystem, StorageError
from kbroker.log.format import (
    DELETE_DIRECTORY_SUFFIX,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
    delete_directory_name,
    is_moved_directory,
    log_directory_name,
    parse_directory_name,
    stray_directory_name,
)
from kbroker.log.log import Log
from kbroker.log.log_directory import LogDirectory, LogDirectoryError, open_log_directory
from kbroker.log.log_loader import LoadRequest, load_log
from kbroker.log.log_state import LogEnvironment, PendingFlush
from kbroker.log.write_runner import WriteRunner, run_now
from kbroker.model import TopicPartition

_CLUSTER_METADATA_TOPIC = "__cluster_metadata"  # KRaft's own log: not a topic of this broker

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
        self._paths = [path.rstrip("/") or "/" for path in log_dirs]
        self._config = config
        self._topic_config = topic_config
        self._file_system = file_system
        self._clock = clock
        self._directories: list[LogDirectory] = []
        self._logs: dict[TopicPartition, Log] = {}
        self._homes: dict[TopicPartition, LogDirectory] = {}
        self._doomed_directories: list[tuple[str, int | None]] = []  # -delete, and when they go
        self._strays: dict[str, list[str]] = {}  # paths, by a topic that the cluster does not have
        self._run_write: WriteRunner = run_now
        self._was_clean = True
        self._on_offline: Callable[[str, list[TopicPartition]], None] = lambda _, __: None
        self._environment = LogEnvironment(
            file_system=file_system,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            walks_records=walks_records,
            draw_jitter=random.randrange,
            on_failure=self._directory_failed,
        )

    def open_directories(self) -> MetaProperties | None:
        """Lock all data directories; whose they are, None while nobody has used them.

        Raises LogDirectoryError.
        """
        try:
            for path in self._paths:
                self._directories.append(open_log_directory(self._file_system, path))
        except LogDirectoryError:
            self.release()
            raise
        # One that was never claimed has no broker before this one, so there is nothing to recover.
        self._was_clean = all(d.was_clean or d.meta is None for d in self._directories)
        return next((d.meta for d in self._directories if d.meta is not None), None)

    def load(
        self,
        cluster_id: str,
        broker_id: int,
        executor: Executor | None = None,
        is_known: Callable[[str], bool] = lambda _: True,
    ) -> list[TopicPartition]:
        """Claim the directories for this broker and open every log in them, in `executor`'s threads
        if there is one. Logs of topics that are not `is_known` to the cluster are left alone.

        The partitions that needed recovery come back. Raises LogDirectoryError.
        """
        now_ms = self._clock.now_ms()
        for directory in self._directories:
            directory.claim(cluster_id, broker_id, now_ms)
        requests = [
            (directory, request)
            for directory in self._directories
            for request in self._load_requests(directory, now_ms, is_known)
        ]
        load = partial(_load, self._environment)
        logs = executor.map(load, requests) if executor else map(load, requests)
        for (directory, _), log in zip(requests, logs, strict=True):
            if log is not None:
                self._adopt(log, directory)
        for directory in self._directories:
            directory.remove_clean_shutdown()
        return [request.topic_partition for _, request in requests if not request.was_clean]

    def write_with(self, run: WriteRunner) -> None:
        """Let `run` write checkpoints and sync logs from now on."""
        self._run_write = run

    def on_directory_offline(self, callback: Callable[[str, list[TopicPartition]], None]) -> None:
        """Call back with the path and the lost partitions when a data directory fails."""
        self._on_offline = callback

    @property
    def was_clean(self) -> bool:
        """True when the last broker on these directories stopped cleanly, or there was none."""
        return self._was_clean

    @property
    def online_directories(self) -> list[str]:
        """Paths of the data directories that work."""
        return [d.path for d in self._directories if d.failure is None]

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
        self, topic_partition: TopicPartition, topic_id: UUID | None = None
    ) -> Log:
        """The log of a partition, made if need be in the data directory with the fewest logs.

        Raises KafkaError: KAFKA_STORAGE_ERROR where no directory works, INCONSISTENT_TOPIC_ID.
        """
        log = self._logs.get(topic_partition)
        if log is None:
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
        """Rename a partition away, for `cleanup` to remove; False where there is none."""
        log = self._logs.pop(topic_partition, None)
        home = self._homes.pop(topic_partition, None)
        if log is None or home is None:
            return False
        target = f"{home.path}/{delete_directory_name(topic_partition, uuid4())}"
        delay_ms = log.config.file_delete_delay_ms
        try:
            self._file_system.rename(log.directory, target)
        except StorageError as error:
            log.close_files()
            self._directory_failed(log.directory, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        log.move_to(target)
        self._doomed_directories.append((target, self._clock.now_ms() + delay_ms))
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
                self._directory_failed(log.directory, error)
            if log.producer_state.producers:
                log.producer_state.remove_expired(now_ms, expiration_ms)
        self._remove_doomed_directories(now_ms)
        return removed

    def flush_dirty_logs(self, now_ms: int) -> int:
        """Sync logs that have waited for flush.ms or gathered flush.messages, and segments that are
        full; how many it begins.
        """
        flushed = 0
        for log in self._online_logs():
            waiting = log.log_end_offset - log.recovery_point
            if waiting <= 0:
                continue
            is_due = (
                waiting >= log.config.flush_messages
                or now_ms - log.last_flush_ms >= log.config.flush_ms
            )
            up_to_offset = log.log_end_offset if is_due else log.segments.active.base_offset
            pending = log.begin_flush(up_to_offset)
            if pending is not None:
                self._run_write(pending.sync, partial(self._flushed, log, pending, now_ms))
                flushed += 1
        return flushed

    def checkpoint_recovery_points(self) -> None:
        """Write down up to where each log is on disk."""
        self._checkpoint(RECOVERY_POINT_CHECKPOINT_FILE, lambda log: log.recovery_point)

    def checkpoint_log_start_offsets(self, on_written: Callable[[], None] | None = None) -> None:
        """Write down the log starts inside a segment; file names tell the others. `on_written` is
        called when that is done.
        """

        def start(log: Log) -> int | None:
            inside = log.log_start_offset > log.segments[0].base_offset
            return log.log_start_offset if inside else None

        self._checkpoint(LOG_START_OFFSET_CHECKPOINT_FILE, start)
        if on_written is not None:
            self._run_write(lambda: None, lambda _: on_written())

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks written last, of all directories."""
        found: dict[TopicPartition, int] = {}
        for directory in self._online():
            found.update(directory.high_watermarks())
        return found

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write high watermarks, each in the directory of its log; those without a log stay out."""

        def high_watermark(log: Log) -> int | None:
            return high_watermarks.get(log.topic_partition)

        self._checkpoint(REPLICATION_OFFSET_CHECKPOINT_FILE, high_watermark)

    def shutdown(self) -> None:
        """Stop cleanly: flush and close the logs, write checkpoints and markers, release all."""
        for log in self._online_logs():
            try:
                log.take_snapshot()
                log.flush()
                log.close()
            except (KafkaError, StorageError) as error:
                self._directory_failed(log.directory, _as_storage_error(error, log))
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        for directory in self._online():
            try:
                directory.write_clean_shutdown()
            except StorageError as error:
                self._directory_failed(directory.path, error)
        self.release()

    def _load_requests(
        self, directory: LogDirectory, now_ms: int, is_known: Callable[[str], bool]
    ) -> list[LoadRequest]:
        recovery_points = directory.recovery_points()
        start_offsets = directory.log_start_offsets()
        configs: dict[str, TopicConfig] = {}
        requests = []
        foreign = []
        for name in self._file_system.list(directory.path):
            path = f"{directory.path}/{name}"
            if name.endswith(DELETE_DIRECTORY_SUFFIX):
                self._doomed_directories.append((path, None))
                continue
            topic_partition = None if is_moved_directory(name) else parse_directory_name(name)
            if not self._file_system.is_directory(path):
                continue
            if topic_partition is None or topic_partition.topic == _CLUSTER_METADATA_TOPIC:
                foreign.append(name)
                continue
            topic = topic_partition.topic
            if not is_known(topic):
                foreign.append(name)
                self._strays.setdefault(topic, []).append(path)
                continue
            if topic not in configs:
                configs[topic] = self._topic_config(topic)
            requests.append(
                LoadRequest(
                    topic_partition=topic_partition,
                    directory=path,
                    config=configs[topic],
                    now_ms=now_ms,
                    recovery_point=recovery_points.get(topic_partition, 0),
                    log_start_offset=start_offsets.get(topic_partition, 0),
                    was_clean=directory.was_clean,
                )
            )
        if foreign:
            _log.warning("Leaving alone what is no log of ours in %s: %s", directory.path, foreign)
        return requests

    def _adopt(self, log: Log, directory: LogDirectory) -> None:
        topic_partition = log.topic_partition
        if topic_partition in self._logs:
            raise LogDirectoryError(
                f"Partition {topic_partition} lies in {self._homes[topic_partition].path} and in "
                f"{directory.path}: remove the older one"
            )
        self._logs[topic_partition] = log
        self._homes[topic_partition] = directory

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
            self._set_strays_aside(topic_partition.topic)
            self._file_system.make_directory(path)
            log = load_log(request, self._environment)
            active = log.segments.active
            for part in (active.records, active.offset_index, active.time_index):
                self._file_system.open(part.path, create=True).close()
        except CheckpointError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except StorageError as error:
            self._directory_failed(path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._adopt(log, directory)
        return log

    def _set_strays_aside(self, topic: str) -> None:
        """Rename what was left alone of an earlier topic of this name: nothing may mix with it."""
        for path in self._strays.pop(topic, ()):
            home, _, name = path.rpartition("/")
            topic_partition = parse_directory_name(name)
            assert topic_partition is not None, name
            self._file_system.rename(
                path, f"{home}/{stray_directory_name(topic_partition, uuid4())}"
            )

    def _emptiest(self) -> LogDirectory:
        online = self._online()
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No log directory is online")
        if len(online) == 1:
            return online[0]
        counts = dict.fromkeys((d.path for d in online), 0)
        for home in self._homes.values():
            if home.path in counts:
                counts[home.path] += 1
        return min(online, key=lambda directory: counts[directory.path])

    def _checkpoint(self, file: str, offset_of_log: Callable[[Log], int | None]) -> None:
        for directory in self._online():
            offsets = {
                topic_partition: offset
                for topic_partition, log in self._logs.items()
                if self._homes[topic_partition] is directory
                and (offset := offset_of_log(log)) is not None
            }
            write = partial(directory.write_offsets, file, offsets)
            self._run_write(write, partial(self._written, directory.path))

    def _flushed(
        self, log: Log, pending: PendingFlush, now_ms: int, error: StorageError | None
    ) -> None:
        if error is None:
            log.complete_flush(pending, now_ms)
        elif self._logs.get(log.topic_partition) is log:
            self._directory_failed(log.directory, error)

    def _written(self, path: str, error: StorageError | None) -> None:
        if error is not None:
            self._directory_failed(path, error)

    def _remove_doomed_directories(self, now_ms: int) -> None:
        delay_ms = self._config.log_segment_delete_delay_ms
        waiting = [
            (p, now_ms + delay_ms if at is None else at) for p, at in self._doomed_directories
        ]
        self._doomed_directories = [(path, at) for path, at in waiting if at > now_ms]
        for path, at in waiting:
            if at <= now_ms:
                try:
                    self._file_system.remove_tree(path)
                except StorageError as error:
                    self._directory_failed(path, error)

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if directory.failure is None]

    def _online_logs(self) -> Iterable[Log]:
        for topic_partition, log in list(self._logs.items()):
            if self._homes[topic_partition].failure is None:
                yield log

    def _directory_failed(self, path: str, error: StorageError) -> None:
        """Take the data directory that holds `path` offline, with all logs in it."""
        if error.is_out_of_descriptors:
            return  # the disk is well: what needs a file is refused until others have been closed
        directory = next(
            (d for d in self._directories if f"{path}/".startswith(f"{d.path}/")), None
        )
        if directory is None or directory.failure is not None:
            return
        directory.failure = error
        lost = [tp for tp, home in self._homes.items() if home is directory]
        _log.error(
            "Data directory %s is offline with %d partitions: %s", directory.path, len(lost), error
        )
        for topic_partition in lost:
            log = self._logs[topic_partition]
            log.failure = log.failure or error
        self._on_offline(directory.path, lost)

    def release(self) -> None:
        """Let the directories go, writing nothing; after `shutdown` nothing is left to do."""
        """Let go of the locks of all data directories; nothing may be written afterwards."""
        for directory in self._directories:
            directory.lock.release()
        self._directories = []


def _load(environment: LogEnvironment, entry: tuple[LogDirectory, LoadRequest]) -> Log | None:
    """Open one log; one whose files cannot be used is left out, with the reason."""
    _, request = entry
    try:
        return load_log(request, environment)
    except (StorageError, CheckpointError, KafkaError) as error:
        _log.error("Log of %s cannot be opened: %s", request.topic_partition, error)
        return None


def _as_storage_error(error: KafkaError | StorageError, log: Log) -> StorageError:
    if isinstance(error, StorageError):
        return error
    return StorageError(log.directory, "close", 0, str(error))
