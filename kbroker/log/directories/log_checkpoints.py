"""The three checkpoint files of each data directory that say something of its logs: recovery
points, log starts, high watermarks.

Law: what is written is gathered on the event loop, which owns this, and written in the background,
in that order. A log start that somebody waits for is in every file from the moment it was asked
for, and counts as written only with the records up to it: a log that ends before its start after a
loss of power would show its records again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.file_system import StorageError
from kbroker.log.format import (
    CLEANER_OFFSET_CHECKPOINT_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
)
from kbroker.log.log import Log
from kbroker.log.log_flush import recovery_point_to_note
from kbroker.log.open_logs import OpenLogs
from kbroker.model import TopicPartition

# Told the partitions whose log start could not be written.
OnStartsWritten = Callable[[frozenset[TopicPartition]], None]


class LogCheckpoints:
    """Gathers from open logs."""

    def __init__(
        self,
        directories: LogDirectories,
        open_logs: OpenLogs,
        flush: Callable[[Log, int], object],
    ) -> None:
        """`flush` begins to bring a log to the disk, up to an offset."""
        self._directories = directories
        self._open = open_logs
        self._flush = flush
        self._wanted_starts: dict[TopicPartition, list[int]] = {}  # that are being written

    def write_recovery_points(self) -> None:
        """Up to where each log is on the disk."""
        self._write(RECOVERY_POINT_CHECKPOINT_FILE, recovery_point_to_note)

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Each in the directory of its log; those without a log stay out. Copies have their own."""
        futures = self._open.futures

        def mark_of(log: Log) -> int | None:
            is_copy = futures.get(log.topic_partition) is log
            return log.high_watermark if is_copy else high_watermarks.get(log.topic_partition)

        self._write(REPLICATION_OFFSET_CHECKPOINT_FILE, mark_of)

    def write_log_starts(
        self,
        wanted: Mapping[TopicPartition, int] | None = None,
        on_written: OnStartsWritten = lambda _: None,
    ) -> None:
        """The log starts inside a segment; file names tell the others. Logs that are `wanted` to
        start at an offset may do so once `on_written` is called, and not named in it.
        """
        wanted = wanted or {}
        for topic_partition, offset in wanted.items():
            self._wanted_starts.setdefault(topic_partition, []).append(offset)
        waiting = {directory.path for directory in self._directories.online}
        failed: set[str] = set()

        def written(directory: LogDirectory, error: StorageError | None) -> None:
            waiting.discard(directory.path)
            if error is not None:
                failed.add(directory.path)
            if not waiting:
                settle()

        def settle() -> None:
            refused = {tp for tp, at in wanted.items() if not self._is_safe(tp, at, failed)}
            # Who is told moves the starts in memory: until then the files have them from here.
            on_written(frozenset(refused))
            for topic_partition, offset in wanted.items():
                self._want_no_more(topic_partition, offset)
            if refused:  # the files may name them, and nobody moved them
                self._write(LOG_START_OFFSET_CHECKPOINT_FILE, self._start_to_note)

        if not waiting:
            settle()
        else:
            self._write(LOG_START_OFFSET_CHECKPOINT_FILE, self._start_to_note, written)

    def forget_gone(self, then: Callable[[], None] = lambda: None) -> None:
        """Replace files that may mention logs that are gone, and call `then`, whatever came of
        it: what is still in `gone` could not be forgotten.
        """
        waiting = {d.path: frozenset(d.gone) for d in self._directories.online if d.gone}
        failed: set[str] = set()

        def noted(directory: LogDirectory, error: StorageError | None) -> None:
            if error is not None:
                failed.add(directory.path)

        def written(directory: LogDirectory, error: StorageError | None) -> None:
            noted(directory, error)
            forgotten = waiting.pop(directory.path, frozenset())
            if directory.path not in failed:
                directory.gone -= forgotten
            if not waiting:
                then()

        if not waiting:
            then()
            return
        affected = frozenset(waiting)
        for directory in self._directories.online:
            if directory.path in affected:
                # What the cleaner said of an earlier log would allow gaps in the next one, and by
                # its high watermark records would count as committed that no other replica has.
                gone = waiting[directory.path]
                for file in (CLEANER_OFFSET_CHECKPOINT_FILE, REPLICATION_OFFSET_CHECKPOINT_FILE):
                    self._directories.forget_offsets(directory, file, gone, noted)
        self._write(RECOVERY_POINT_CHECKPOINT_FILE, recovery_point_to_note, noted, affected)
        self._write(LOG_START_OFFSET_CHECKPOINT_FILE, self._start_to_note, written, affected)

    def _want_no_more(self, topic_partition: TopicPartition, offset: int) -> None:
        offsets = self._wanted_starts[topic_partition]
        offsets.remove(offset)
        if not offsets:
            del self._wanted_starts[topic_partition]

    def _start_to_note(self, log: Log) -> int | None:
        start_offset = log.log_start_offset
        for offset in self._wanted_starts.get(log.topic_partition, ()):
            if start_offset < offset <= log.high_watermark:  # else it was cut since
                start_offset = offset
        is_inside = start_offset > log.segments[0].base_offset
        if not is_inside and not log.files.unsynced.has_removed:
            return None
        if start_offset > log.recovery_point:
            self._flush(log, start_offset)
        return start_offset

    def _is_safe(self, topic_partition: TopicPartition, offset: int, failed: set[str]) -> bool:
        log, home = self._open.logs.get(topic_partition), self._open.homes.get(topic_partition)
        if log is None or home is None or home.failure is not None or home.path in failed:
            return False
        noted = home.noted[LOG_START_OFFSET_CHECKPOINT_FILE].in_file(
            topic_partition
        )  # it may have been cut since
        return offset <= max(min(log.recovery_point, noted), log.segments[0].base_offset)

    def _write(
        self,
        file: str,
        offset_of: Callable[[Log], int | None],
        written: Callable[[LogDirectory, StorageError | None], None] = lambda _, __: None,
        only: Collection[str] | None = None,
    ) -> None:
        for directory in self._directories.online:
            if only is None or directory.path in only:
                offsets = self._offsets(directory, offset_of)
                self._directories.write_offsets(directory, file, offsets, written)

    def _offsets(
        self, directory: LogDirectory, offset_of: Callable[[Log], int | None]
    ) -> dict[TopicPartition, int]:
        return {
            log.topic_partition: offset
            for log in self._open.in_directory(directory)
            if (offset := offset_of(log)) is not None
        }
