"""Writes rows of partitions into the logs of a data directory, with their offsets and times.

Batches are appended as a follower appends what its leader sent. So segments, indexes, leader epochs
and checkpoints are those of a broker that was stopped cleanly.

Law: each batch begins where the one before ends. Offsets without a record belong to the batch
before them, as compaction leaves them: so recovery finds every hole that a power loss made, and a
run that was killed is continued where the log ends. Only a directory whose logs are whole on the
disk is marked as cleanly stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self
from uuid import UUID

import pyarrow as pa

from kbroker.client.wall_clock import unix_now_ms
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import KafkaError
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.checkpoint import CheckpointError, read_clean_shutdown
from kbroker.log.disk.file_system import FileSystem, RealFileSystem, StorageError
from kbroker.log.disk.format import DELETED_SUFFIX, MAX_RELATIVE_OFFSET
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.row_batches import (
    BatchForm,
    RowBatch,
    batch_without_records,
    row_batches,
)
from kbroker.record.compression import NONE

MOST_EMPTY: Final = 10_000  # batches in a row without a record: each is a segment of its own
FLUSH_BYTES: Final = 128 * 1024 * 1024  # after a kill no more than this has to be recovered


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDirectory:
    """The directory to write, and the broker and cluster it will belong to."""

    path: str
    cluster_id: str
    broker_id: int
    topic_config: Callable[[str], TopicConfig]  # settings by topic


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLog:
    """The log to write: offsets [start, end) of a partition, whether or not they have records."""

    partition: TopicPartition
    start_offset: int
    end_offset: int
    topic_id: UUID | None = None
    leader_epoch: int = 0  # of all of its records
    codec: int = NONE  # an id of `record.compression`


class LogWriting:
    """A data directory that is held and written to; a context manager, owned by one thread.

    It is left cleanly stopped or, if the `with` ends in an error, as a kill leaves it.
    """

    def __init__(self, directory: WrittenDirectory, file_system: FileSystem | None = None) -> None:
        """Hold the directory and open its logs. Raises PipelineError if that fails."""
        self._directory = directory
        self._file_system = file_system or RealFileSystem()
        defaults = KafkaConfig().log
        with _sentences(directory.path):
            locked = LogDirectories.lock(self._file_system, [directory.path])
            try:
                self._logs = LogManager(
                    locked, lambda: defaults, directory.topic_config, self._file_system, _Clock()
                )
                self._logs.load(directory.cluster_id, directory.broker_id)
            except BaseException:
                locked.release()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                with _sentences(self._directory.path):
                    self._stop()
        finally:
            self._logs.release()

    def open(self, written: WrittenLog) -> PartitionWriting:
        """Return the log of a partition, to be written from its `next_offset` on. Raises
        PipelineError if it holds other offsets than those to be written, or those of a later epoch.
        """
        partition = written.partition
        with _sentences(self._directory.path):
            log = self._logs.get_or_create_log(partition, written.topic_id)
            if log.log_start_offset == log.log_end_offset:
                self._begin(log, written.start_offset)
        if log.log_start_offset != written.start_offset or log.log_end_offset > written.end_offset:
            raise PipelineError(
                f"{log.directory} holds offsets {log.log_start_offset} to "
                f"{log.log_end_offset - 1} of {partition}, and {written.start_offset} to "
                f"{written.end_offset - 1} are to be written: give another directory"
            )
        epoch = log.leader_epoch_cache.latest_epoch
        if epoch > written.leader_epoch:
            raise PipelineError(
                f"{log.directory} has records of leader epoch {epoch}, and those to be written "
                f"would have epoch {written.leader_epoch}: epochs rise, so give {epoch} or another "
                "directory"
            )
        return PartitionWriting(log, written, self._note_progress)

    def _begin(self, log: Log, start_offset: int) -> None:
        """Let an empty log start there; keep a power loss from taking its first segment alone."""
        if log.log_start_offset != start_offset:
            log.truncate_fully_and_start_at(start_offset)
            for name in self._file_system.list(log.directory):
                if name.endswith(DELETED_SUFFIX):  # no broker stays to remove them after a delay
                    self._file_system.unlink(f"{log.directory}/{name}")
        self._file_system.sync_directory(log.directory)

    def _note_progress(self) -> None:
        """Write recovery points: logs that were synced need no recovery up to there."""
        self._logs.checkpoint_recovery_points()

    def _stop(self) -> None:
        ends = {log.topic_partition: log.log_end_offset for log in self._logs.all_logs()}
        self._logs.write_high_watermarks(ends)
        self._logs.shutdown()
        if not read_clean_shutdown(self._file_system, self._directory.path):
            raise PipelineError(
                f"not all of {self._directory.path} could be brought to the disk: look at its "
                "disk, and run again"
            )


class PartitionWriting:
    """One log that is written to."""

    def __init__(self, log: Log, written: WrittenLog, note_progress: Callable[[], None]) -> None:
        self._log = log
        self._written = written
        self._form = BatchForm.of(log.config, written.leader_epoch, written.codec)
        self._note_progress = note_progress
        self._unsynced_bytes = 0
        self.rows = 0  # written so far

    def count_rows(self) -> int:
        """Return how many records the log has. Reads the headers of all batches."""
        with _sentences(self._log.directory):
            headers = [each.records.headers() for each in self._log.segments]
            return sum(header.record_count for some in headers for _, header in some)

    @property
    def next_offset(self) -> int:
        """The end of the log: rows from here on are wanted."""
        return self._log.log_end_offset

    def write(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Write rows by rising offset, up to the log's end offset. PipelineError with one
        sentence.
        """
        with _sentences(self._log.directory):
            held: RowBatch | None = None  # until it is known where the next one begins
            for batch in self._batches(rows):
                self._append_up_to(held, batch.header.base_offset)
                held = batch
            self._append_up_to(held, self._written.end_offset)
            self._log.update_high_watermark(self.next_offset)

    def _append_up_to(self, batch: RowBatch | None, end_offset: int) -> None:
        """Append a batch, if there is one, and let the log end there."""
        if batch is not None:
            self._append(batch.up_to(end_offset))
        if end_offset - self.next_offset > MOST_EMPTY * MAX_RELATIVE_OFFSET:
            raise PipelineError(
                f"{self._written.partition} of the archive goes on at offset {end_offset} after "
                f"{self.next_offset}, without a record between them: a log of so many offsets "
                "would fill the disk; see with `kbroker pipeline archive list` whether the archive "
                "is the right one"
            )
        while self.next_offset < end_offset:  # there is no record, or none that is near enough
            self._append(batch_without_records(self.next_offset, self._form).up_to(end_offset))

    def _batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[RowBatch]:
        begin: int | None = self.next_offset
        for some in rows:
            yield from row_batches(some, self._form, begin)
            begin = None

    def _append(self, batch: RowBatch) -> None:
        data = batch.built()
        self._log.append_as_follower(data, unix_now_ms())
        self.rows += batch.header.record_count
        self._unsynced_bytes += len(data)
        if self._unsynced_bytes >= FLUSH_BYTES:
            self._log.flush(and_closed=True)
            self._note_progress()
            self._unsynced_bytes = 0


class _Clock:
    def now_ms(self) -> int:
        return unix_now_ms()

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1_000


@contextmanager
def _sentences(path: str) -> Iterator[None]:
    """Turn what the log and the disk refuse into a sentence for a person."""
    try:
        yield
    except LogDirectoryError as error:
        raise PipelineError(str(error), trouble=error.trouble) from error
    except (KafkaError, StorageError, CheckpointError) as error:
        reason = error.message if isinstance(error, KafkaError) else None
        raise PipelineError(f"{path} cannot be written: {reason or error}; run again") from error
