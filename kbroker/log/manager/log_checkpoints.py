"""The three checkpoint files of each data directory that say something of its logs: recovery
points, log starts, high watermarks.

Law: what is written is gathered on the event loop, which owns this, and written in the background,
in that order. Gathering goes in small steps: what it has come to is dropped if another write of
the file was begun meanwhile, which knows more, and logs that were cut or moved are looked at again.
A log start that somebody waits for is in every file from the moment it was asked for, and counts as
written only with the records up to it: a log that ends before its start after a loss of power would
show its records again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from kbroker.log.directories.checkpointed_offsets import CheckpointedOffsets
from kbroker.log.directories.log_directories import LogDirectories, OnWritten
from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.disk.file_system import StorageError
from kbroker.log.disk.format import (
    CLEANER_OFFSET_CHECKPOINT_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
)
from kbroker.log.manager.open_logs import OpenLogs
from kbroker.log.partition.log import Log
from kbroker.model import TopicPartition

# Gets the partitions whose log start could not be written.
OnStartsWritten = Callable[[frozenset[TopicPartition]], None]


class LogCheckpoints:
    """Gathers from open logs."""

    def __init__(
        self, directories: LogDirectories, open_logs: OpenLogs, flush: Callable[[Log, int], object]
    ) -> None:
        """`flush` begins to bring a log to the disk, up to an offset."""
        self._directories = directories
        self._open = open_logs
        self._flush = flush
        self._wanted_starts: dict[TopicPartition, list[int]] = {}  # that are being written
        self._begun = Counter[str]()  # writes, by file

    def recovery_points(self) -> Iterator[None]:
        """Write up to where each log is on the disk."""
        return self._written_in_steps(RECOVERY_POINT_CHECKPOINT_FILE, _recovery_point_to_note)

    def high_watermarks(
        self, high_watermark_of: Callable[[TopicPartition], int | None]
    ) -> Iterator[None]:
        """Each in the directory of its log; those of which None is known stay out. Copies have
        their own.
        """
        futures = self._open.futures

        def mark_of(log: Log) -> int | None:
            is_copy = futures.get(log.topic_partition) is log
            return log.high_watermark if is_copy else high_watermark_of(log.topic_partition)

        return self._written_in_steps(REPLICATION_OFFSET_CHECKPOINT_FILE, mark_of)

    def log_starts(self) -> Iterator[None]:
        """Write the log starts inside a segment; file names say the others."""
        return self._written_in_steps(LOG_START_OFFSET_CHECKPOINT_FILE, self._start_to_note)

    def write_log_starts(
        self, wanted: Mapping[TopicPartition, int], on_written: OnStartsWritten
    ) -> None:
        """Write all log starts at once. Logs that are `wanted` to start at an offset may do so once
        `on_written` is called, and not named in it.
        """
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
            # `on_written` moves the starts in memory: until then the files have them from here.
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
                    self._begun[file] += 1
                    self._directories.forget_offsets(directory, file, gone, noted)
        self._write(RECOVERY_POINT_CHECKPOINT_FILE, _recovery_point_to_note, noted, affected)
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
        if start_offset > log.offsets.recovery_point:
            self._flush(log, start_offset)
        return start_offset

    def _is_safe(self, topic_partition: TopicPartition, offset: int, failed: set[str]) -> bool:
        log, home = self._open.logs.get(topic_partition), self._open.homes.get(topic_partition)
        if log is None or home is None or home.failure is not None or home.path in failed:
            return False
        noted = home.noted[LOG_START_OFFSET_CHECKPOINT_FILE].in_file(
            topic_partition
        )  # it may have been cut since
        return offset <= max(min(log.offsets.recovery_point, noted), log.segments[0].base_offset)

    def _write(
        self,
        file: str,
        offset_of: Callable[[Log], int | None],
        written: OnWritten = lambda _, __: None,
        only: Collection[str] | None = None,
    ) -> None:
        self._begun[file] += 1
        for directory in self._directories.online:
            if only is None or directory.path in only:
                offsets = {
                    log.topic_partition: offset
                    for log in self._open.in_directory(directory)
                    if (offset := offset_of(log)) is not None
                }
                self._directories.write_offsets(directory, file, offsets, written)

    def _written_in_steps(
        self, file: str, offset_of: Callable[[Log], int | None]
    ) -> Iterator[None]:
        self._begun[file] += 1
        begun = self._begun[file]
        for directory in self._directories.online:
            gathering = _Gathering(self._open, directory, offset_of, directory.noted.get(file))
            for log in self._open.all():
                gathering.look_at(log)
                yield
            if self._begun[file] != begun:
                return
            offsets = gathering.offsets_of_now()
            self._directories.write_offsets(directory, file, offsets, lambda _, __: None)


class _Gathering:
    """Offsets for one file, looked up one after the other."""

    def __init__(
        self,
        open_logs: OpenLogs,
        directory: LogDirectory,
        offset_of: Callable[[Log], int | None],
        noted: CheckpointedOffsets | None,
    ) -> None:
        self._open = open_logs
        self._directory = directory
        self._offset_of = offset_of
        self._noted = noted
        self._gathered = noted.gathered if noted is not None else 0
        self._last_move = open_logs.last_move
        self._looks: list[tuple[Log, int]] = []  # and how often it had been cut
        self._offsets: dict[TopicPartition, int] = {}

    def look_at(self, log: Log) -> None:
        """Take the offset of a log, if it lies in the directory."""
        if not self._open.is_in(log, self._directory):
            return
        self._looks.append((log, log.offsets.cuts))
        offset = self._offset_of(log)
        if offset is not None:
            self._offsets[log.topic_partition] = offset

    def offsets_of_now(self) -> dict[TopicPartition, int]:
        """All offsets, in one step: what has been cut, moved or noted since is looked at again."""
        if self._open.last_move is not self._last_move:
            looks, self._looks, self._offsets = self._looks, [], {}
            for log, _ in looks:
                self.look_at(log)
            return self._offsets
        again = {log.topic_partition: log for log, cuts in self._looks if log.offsets.cuts != cuts}
        for topic_partition in self._noted.noted_since(self._gathered) if self._noted else ():
            noted = self._open.log_in(topic_partition, self._directory)
            if noted is not None:
                again[topic_partition] = noted
        for topic_partition, log in again.items():
            self._offsets.pop(topic_partition, None)
            self.look_at(log)
        return self._offsets


def _recovery_point_to_note(log: Log) -> int:
    return log.flushes.recovery_point_to_note()
