"""The data directories of a broker: which of them work, which are full, which have failed.

Law: a directory is locked and claimed, and its clean-shutdown marker is gone, before anything else
is written to it. One that cannot be used at the start, or whose disk fails later, is offline until
the broker starts again; nothing in it is read, written or deleted any more, and no clean-shutdown
marker ever says that it is whole. The others go on. A full disk is not a failure: what does not fit
is refused until there is room.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from kbroker.log.directories.log_directory import (
    LogDirectory,
    LogDirectoryError,
    open_log_directory,
)
from kbroker.log.disk.checkpoint import LogCut
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import LOG_START_OFFSET_CHECKPOINT_FILE, RECOVERY_POINT_CHECKPOINT_FILE
from kbroker.log.disk.write_runner import WriteRunner, outcome, run_now
from kbroker.model import TopicPartition

# (the data directory, why a file in it could not be written; None: it was)
OnWritten = Callable[[LogDirectory, StorageError | None], None]

_log = logging.getLogger(__name__)


class LogDirectories:
    """Locked, claimed, watched and let go together. Owned by the event loop."""

    def __init__(
        self, file_system: FileSystem, directories: Sequence[LogDirectory], required: str | None
    ) -> None:
        self._file_system = file_system
        self._directories = directories
        self._required = required
        self.meta = next((d.meta for d in self.online if d.meta is not None), None)
        self.were_clean = all(d.was_clean or d.meta is None for d in self.online)
        self.run_write: WriteRunner = run_now
        self.on_offline: Callable[[LogDirectory, StorageError], None] = lambda _, __: None

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._directories)

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if directory.failure is None]

    @property
    def offline_paths(self) -> list[str]:
        return [d.path for d in self._directories if d.failure is not None]

    @classmethod
    def lock(
        cls, file_system: FileSystem, paths: Sequence[str], required: str | None = None
    ) -> LogDirectories:
        """Lock and read the directories at `paths`. One that cannot be used is offline. Raises
        LogDirectoryError if that is the `required` one, or where none is left.
        """
        directories: list[LogDirectory] = []
        errors: list[LogDirectoryError] = []
        for path in paths:
            try:
                directories.append(open_log_directory(file_system, path))
            except LogDirectoryError as error:
                errors.append(error)
                directories.append(LogDirectory.unusable(file_system, path, str(error)))
                if path == required:
                    _release(directories)
                    raise
        locked = cls(file_system, directories, required)
        if not locked.online and errors:
            locked.release()
            raise errors[0]
        for refused in errors:
            _log.error("%s. Its partitions are offline, the others are served", refused)
        return locked

    def claim(self, cluster_id: str, broker_id: int, now_ms: int) -> None:
        """Take the clean-shutdown markers back and make the directories this broker's. Raises
        LogDirectoryError as `lock`.
        """
        errors: list[LogDirectoryError] = []
        for directory in self.online:
            try:
                directory.claim(cluster_id, broker_id, now_ms)
            except LogDirectoryError as error:
                others = [d for d in self.online if d is not directory]
                if directory.path == self._required or not others:
                    raise
                directory.set_aside(str(error))
                errors.append(error)
        for refused in errors:
            _log.error("%s. Its partitions are offline, the others are served", refused)

    def check(self) -> None:
        """Raise LogDirectoryError if none is left, or the one that is required is not."""
        for directory in self._directories:
            if directory.failure is not None and (
                directory.path == self._required or not self.online
            ):
                raise LogDirectoryError(
                    f"Data directory {directory.path} cannot be used: {directory.failure}. "
                    "Repair the disk and start again"
                )

    def fail(self, path: str, error: StorageError) -> None:
        """Take the directory that holds `path` offline; a shortage that passes does nothing."""
        directory = self.of(path)
        if error.is_passing or directory is None or directory.failure is not None:
            return
        directory.fail(error)
        _log.error(
            "Data directory %s is offline: %s. Its partitions answer KAFKA_STORAGE_ERROR until the "
            "disk is repaired and the broker started again",
            directory.path, error,
        )  # fmt: skip
        self.on_offline(directory, error)

    def full(self, path: str, error: StorageError, size_bytes: int) -> None:
        """`size_bytes` did not fit into the directory that holds `path`; said once."""
        directory = self.of(path)
        if directory is None or directory.failure is not None or not error.is_out_of_space:
            return
        directory.missing_bytes = max(directory.missing_bytes, size_bytes)
        if directory.is_full:
            return
        directory.is_full = True
        _log.error(
            "Data directory %s is full: what does not fit is refused (%s bytes needed, %s bytes "
            "free) and reads go on. Free some space, or lower retention: no restart is needed (%s)",
            directory.path, f"{size_bytes:,}", self._free_bytes(directory), error,
        )  # fmt: skip

    def of(self, path: str) -> LogDirectory | None:
        """The directory that holds `path`."""
        holding = [d for d in self._directories if f"{path}/".startswith(f"{d.path}/")]
        return max(holding, key=lambda d: len(d.path), default=None)  # one may lie in another

    def look_after(self) -> None:
        """Notice directories that were removed or replaced, and room in those that were full."""
        for directory in self.online:
            gone = directory.absence()
            if gone is not None:
                self.fail(directory.path, gone)
            elif directory.is_full and self._has_room(directory):
                directory.is_full = False
                directory.missing_bytes = 0
                _log.warning("Data directory %s has space again", directory.path)

    def write_offsets(
        self,
        directory: LogDirectory,
        file: str,
        offsets: Mapping[TopicPartition, int],
        written: OnWritten,
    ) -> None:
        """Replace a checkpoint file, keeping what it says of unopened logs; `written` hears what
        came of it.
        """
        noted = directory.noted.get(file)
        if noted is not None:
            write = noted.gather(offsets)
        else:
            write = partial(directory.write_offsets, file, offsets)
        self.run_write(write, partial(self._offsets_written, directory, written))

    def forget_offsets(
        self,
        directory: LogDirectory,
        file: str,
        gone: frozenset[TopicPartition],
        written: OnWritten,
    ) -> None:
        """Drop what a checkpoint file says of logs that are gone; `written` hears what came of it.
        The note of gaps follows.
        """
        forget = partial(directory.forget_offsets, file, gone)
        self.run_write(forget, partial(self._offsets_written, directory, written))
        if not directory.gapless.is_written:
            self._write_gapless(directory)

    def _offsets_written(
        self, directory: LogDirectory, written: OnWritten, error: StorageError | None
    ) -> None:
        self._written(directory.path, error)
        written(directory, error)

    def loaded(self) -> None:
        """All logs that can be opened are open."""
        for directory in self.online:
            directory.loaded()
            self._write_gapless(directory)

    def gapless(self, path: str, topic_partition: TopicPartition, offset: int) -> None:
        """The log in `path` was opened, or is led by this broker now: it has no gap from `offset`
        on.
        """
        directory = self.of(path)
        if directory is not None:
            directory.gapless.claim(topic_partition, offset)
            if directory.is_loaded and not directory.gapless.is_written:
                self._write_gapless(directory)

    def before_gap(self, path: str, topic_partition: TopicPartition, below: int | None) -> None:
        """Gaps are about to come into the log in `path`: note it, durably; on any thread. Raises
        StorageError.
        """
        directory = self.of(path)
        if directory is not None:
            directory.gapless.withdraw(topic_partition, below)
            directory.gapless.write()

    def before_roll(self, path: str, topic_partition: TopicPartition) -> None:
        """The log in `path` is about to begin a segment, which a power loss may spare when it takes
        the end of the one before: by now the file must say that this leaves a gap.
        """
        directory = self.of(path)
        if directory is not None and not directory.gapless.is_noted(topic_partition):
            error = outcome(directory.gapless.write)
            self._written(directory.path, error)
            if error is not None and not error.is_passing:
                raise error

    def before_cut(self, path: str, topic_partition: TopicPartition, cut: LogCut) -> None:
        """The log in `path` is about to be cut: no file may say that it is on the disk beyond its
        end, or begins there, unless it does until all of it is gone. Raises StorageError.
        """
        directory = self.of(path)
        if directory is not None:
            starts = directory.noted[LOG_START_OFFSET_CHECKPOINT_FILE]
            if cut.start_offset >= cut.end_offset:  # while it has no segment, nothing else says so
                starts.note(topic_partition, cut.start_offset)
            else:
                starts.lower(topic_partition, cut.end_offset, cut.start_offset)
            recovery_points = directory.noted[RECOVERY_POINT_CHECKPOINT_FILE]
            recovery_points.lower(topic_partition, cut.safe_offset, cut.safe_offset)

    def forget_gapless(self, directory: LogDirectory, topic_partition: TopicPartition) -> None:
        """A log was deleted, or not made: what is known of its gaps is not true of another one in
        its place.
        """
        directory.gapless.withdraw(topic_partition)  # `forget_offsets` brings the file up to date

    def write_clean_shutdown(self) -> None:
        """All logs are whole on the disk: say so unless something speaks against it."""
        for directory in self.online:
            if not directory.may_be_clean:
                continue
            try:
                directory.write_clean_shutdown()
            except StorageError as error:
                directory.disown_clean_shutdown()
                self._written(directory.path, error)

    def release(self) -> None:
        """Let go of the locks; nothing may be written afterwards."""
        _release(self._directories)
        self._directories = []

    def _written(self, path: str, error: StorageError | None) -> None:
        if error is not None:
            self.full(path, error, 0)
            self.fail(path, error)

    def _write_gapless(self, directory: LogDirectory) -> None:
        """Write the note once for all logs that were opened until then."""
        if directory.is_noting_gapless:
            return
        directory.is_noting_gapless = True

        def written(error: StorageError | None) -> None:
            directory.is_noting_gapless = False
            self._written(directory.path, error)
            if error is None and not directory.gapless.is_written:
                self._write_gapless(directory)

        self.run_write(directory.gapless.write, written)

    def _has_room(self, directory: LogDirectory) -> bool:
        try:
            return self._file_system.free_bytes(directory.path) > directory.missing_bytes
        except StorageError as error:
            self.fail(directory.path, error)
            return False

    def _free_bytes(self, directory: LogDirectory) -> str:
        try:
            return f"{self._file_system.free_bytes(directory.path):,}"
        except StorageError:
            return "?"


def _release(directories: Iterable[LogDirectory]) -> None:
    for directory in directories:
        directory.release()
