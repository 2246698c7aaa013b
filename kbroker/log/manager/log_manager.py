"""All logs of a broker, over one or more data directories: opened, created, deleted, and looked
after from time to time.

Law: every data directory is locked and claimed before its logs are opened, and its clean-shutdown
marker is gone before anything is written: a crash after that must lead to a recovery. A directory
whose disk failed is offline until the broker starts again; the others go on.

Owned by the event loop. Nothing here waits or starts anything by itself: periodic work is a method
that takes the time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID

from kbroker.clock import Clock
from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import REPLICATION_OFFSET_CHECKPOINT_FILE
from kbroker.log.disk.write_runner import InTurn, WriteRunner
from kbroker.log.manager.dirty_logs import DirtyLogs
from kbroker.log.manager.future_logs import FutureLogs
from kbroker.log.manager.log_checkpoints import LogCheckpoints
from kbroker.log.manager.log_creation import LogCreation
from kbroker.log.manager.log_startup import LogStartup
from kbroker.log.manager.open_logs import ManagedLogs, OpenLogs
from kbroker.log.manager.partition_deletion import OnSettled, PartitionDeletion
from kbroker.log.manager.replaced_directories import StrayDirectories
from kbroker.log.manager.segment_deletion import ProducerExpiry, SegmentDeletion
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_state import LogEnvironment, work_off
from kbroker.log.recovery.load_progress import LoadProgress
from kbroker.model import TopicPartition

# (path of a data directory that failed, the partitions lost with it, the error)
OnOffline = Callable[[str, list[TopicPartition], StorageError], None]


class LogManager:
    """The logs of this broker by partition. Call `load` before anything else."""

    def __init__(
        self,
        directories: LogDirectories,
        config: Callable[[], LogConfig],
        topic_config: Callable[[str], TopicConfig],
        file_system: FileSystem,
        clock: Clock,
        *,
        walks_records: bool = True,
    ) -> None:
        """`config` and `topic_config` give the settings of now."""
        self._directories = directories
        self._config = config
        self._clock = clock
        self._open = OpenLogs()
        upkeep = InTurn(lambda: self._directories.run_write)
        self._deletions = PartitionDeletion(file_system, self._directories, upkeep)
        # What is done with these from time to time is done in small steps.
        self.dirty = DirtyLogs(self._open, directories, clock)
        self.checkpoints = LogCheckpoints(directories, self._open, self.dirty.flush_up_to)
        self._segment_deletion = SegmentDeletion(
            file_system, self.checkpoints, upkeep, self._directories.fail
        )
        self._producer_expiry = ProducerExpiry(upkeep, self._producer_id_expiration_ms)
        self._on_offline: OnOffline = lambda _, __, ___: None
        environment = LogEnvironment(
            file_system=file_system,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            walks_records=walks_records,
            draw_jitter=random.randrange,
            on_failure=directories.fail,
            on_full=directories.full,
            on_gapless=directories.gapless,
            before_gap=directories.before_gap,
            before_roll=directories.before_roll,
            before_cut=directories.before_cut,
            in_turn=upkeep.add_steps,
        )
        logs = ManagedLogs(
            directories=directories,
            open=self._open,
            environment=environment,
            topic_config=topic_config,
            clock=clock,
        )
        self.strays = StrayDirectories(file_system)
        self._creation = LogCreation(logs, self._deletions, self.checkpoints, self.strays)
        self.futures = FutureLogs(logs, self._creation, self._deletions, self.checkpoints)
        threads = config().num_recovery_threads_per_data_dir
        self._startup = LogStartup(logs, self._deletions, self.strays, threads)

    def _producer_id_expiration_ms(self) -> int:
        return self._config().producer_id_expiration_ms

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
        self._directories.claim(cluster_id, broker_id, self._clock.now_ms())
        recovered = self._startup.open_all(progress or LoadProgress(), is_known)
        self._directories.on_offline = self._directory_offline
        self.checkpoints.forget_gone()
        return recovered

    def write_with(self, run: WriteRunner) -> None:
        """Let `run` write checkpoints and sync logs from now on."""
        self._directories.run_write = run

    def on_directory_offline(self, callback: OnOffline) -> None:
        """Call back when a data directory fails."""
        self._on_offline = callback

    @property
    def was_clean(self) -> bool:
        return self._directories.were_clean

    @property
    def online_directories(self) -> list[str]:
        return [d.path for d in self._directories.online]

    def directories(self) -> list[LogDirectory]:
        return list(self._directories)

    def get_log(self, topic_partition: TopicPartition) -> Log | None:
        return self._open.logs.get(topic_partition)

    def all_logs(self) -> list[Log]:
        return list(self._open.logs.values())

    def all_futures(self) -> list[Log]:
        return list(self._open.futures.values())

    def highest_producer_id(self, at_most: int) -> int:
        """The highest producer id up to `at_most` that a log remembers, -1 for none."""
        return max(
            (
                id_
                for log in self._open.logs.values()
                for id_ in log.producer_state.producers
                if id_ <= at_most
            ),
            default=-1,
        )

    def get_or_create_log(
        self, topic_partition: TopicPartition, topic_id: UUID | None = None, *, is_new: bool = True
    ) -> Log:
        """The log of a partition, made if need be in the data directory with the fewest logs.

        One that is not `is_new` to the cluster may lie in an offline directory: it is not made
        again. Raises KafkaError: KAFKA_STORAGE_ERROR, INCONSISTENT_TOPIC_ID.
        """
        log = self._open.logs.get(topic_partition)
        if log is None:
            log = self._creation.create(topic_partition, is_new=is_new)
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
        remove; False if there is none.

        Raises KafkaError(KAFKA_STORAGE_ERROR): it is still what it was.
        """
        log = self._open.logs.get(topic_partition)
        self.futures.drop(topic_partition)
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

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Rename the log of a topic that is gone: a new one has its name. Its files are kept.

        Raises KafkaError(KAFKA_STORAGE_ERROR): it is still what it was.
        """
        self.futures.drop(topic_partition)
        log, home = self._open.logs[topic_partition], self._open.homes[topic_partition]
        with _refused():
            self.strays.renamed.append(self._deletions.set_aside(log, home))
        self._open.remove(topic_partition)

    def finish_deletions(self, on_finished: OnSettled = lambda _: None) -> None:
        """Bring deletions to the disk; `on_finished` hears of those for which that failed."""
        self._deletions.settle(
            lambda failed: self.checkpoints.forget_gone(lambda: on_finished(failed))
        )

    def update_topic_config(self, topic: str, config: TopicConfig) -> None:
        """Use new settings for all logs of a topic."""
        for log in (*self._open.logs.values(), *self._open.futures.values()):
            if log.topic_partition.topic == topic:
                log.update_config(config)

    def cleanup(self, now_ms: int) -> None:
        """Begin with retention, and files whose delay is over."""
        self._segment_deletion.look(self._open.online(), now_ms)
        self._deletions.remove_due(now_ms, self._config().log_segment_delete_delay_ms)

    def remove_due_files(self, now_ms: int) -> Iterator[None]:
        """The steps in which files whose delay is over go, also between two looks of retention."""
        self._deletions.remove_due(now_ms, self._config().log_segment_delete_delay_ms)
        return self._segment_deletion.remove_due(self._open.online(), now_ms)

    def forget_idle_producers(self, now_ms: int) -> None:
        """Begin to forget the idempotent producers that have written nothing for long."""
        self._producer_expiry.look(self._open.online(), now_ms)

    def stop_cleanup(self) -> None:
        """Leave what `cleanup` began to the next start."""
        self._segment_deletion.stop()

    def checkpoint_recovery_points(self) -> None:
        """Write up to where each log is on the disk."""
        work_off(self.checkpoints.recovery_points())

    def checkpoint_log_start_offsets(self) -> None:
        work_off(self.checkpoints.log_starts())

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks written last, of all directories."""
        return {
            tp: mark
            for home in self._directories.online
            for tp, mark in home.found_offsets(REPLICATION_OFFSET_CHECKPOINT_FILE).items()
            if self._open.homes.get(tp, home) is home  # there may be a copy in another
        }

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write high watermarks, each in the directory of its log."""
        work_off(self.checkpoints.high_watermarks(high_watermarks.get))

    def fail_directory(self, path: str, error: StorageError) -> None:
        """Take a data directory offline whose disk has failed for something else than a log."""
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
        for log in self._open.online_with_futures():
            try:
                if log.offsets.unfinished_cut is not None:
                    log.truncate_to(log.offsets.unfinished_cut)
                log.close()
                log.flush(and_closed=True)
            except (KafkaError, StorageError) as error:
                failure = _as_storage_error(error, log)
                self._mark_unclean(log.directory)
                self._directories.full(log.directory, failure, 0)
                self._directories.fail(log.directory, failure)
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self._directories.write_clean_shutdown()
        self.release()

    def _directory_offline(self, directory: LogDirectory, error: StorageError) -> None:
        self._on_offline(directory.path, self._open.fail(directory, error), error)

    def _mark_unclean(self, path: str) -> None:
        home = self._directories.of(path)
        if home is not None:
            home.may_be_clean = False

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
