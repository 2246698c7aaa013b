"""Cuts of a log: at an offset, or of everything.

Law: after each cut segments, offsets, leader epochs and producer state agree. What the disk refuses
of a cut is completed before anything else is written: a half-done one would mix old records with
new ones.
"""

from __future__ import annotations

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.checkpoint import Cut
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log_parts import LogParts


class LogTruncation:
    """Cuts the parts of one log together."""

    __slots__ = ("_directory", "_epochs", "_files", "_offsets", "_producers", "_roll")

    def __init__(self, parts: LogParts) -> None:
        self._directory = parts.directory
        self._offsets = parts.offsets
        self._files = parts.files
        self._epochs = parts.epochs
        self._producers = parts.producers
        self._roll = parts.roll

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Cut the log so that it ends at `offset`; False if it already ends there or earlier.

        It goes on in another file: a power loss may give the cut one back what it had there, amid
        what comes, and nobody could tell the two apart. KafkaError(KAFKA_STORAGE_ERROR).
        """
        offsets, files = self._offsets, self._files
        if offsets.unfinished_cut is not None:
            offset = min(offset, offsets.unfinished_cut)
        elif offset >= offsets.log_end_offset:
            self._forget_epochs_without_records()
            return False
        is_empty = offsets.log_start_offset == offsets.log_end_offset == offset  # unfinished start
        if is_empty or files.segments[0].base_offset > offset or files.is_empty_at(offset):
            self.truncate_fully_and_start_at(offset, now_ms)
        else:
            try:
                self.cut_at(offset, now_ms)
            except StorageError as error:
                raise self._directory.failed(error) from error
        if files.segments.active.size_bytes:
            self._roll.start_if_there_is_room(offsets.log_end_offset, now_ms)
        return True

    def cut_at(self, offset: int, now_ms: int) -> None:
        """Drop the batch that holds `offset`, if there is one, and all after it. StorageError: the
        log ends there all the same, and the next append or truncation begins with the files.

        No first segment may come after `offset`.
        """
        offsets = self._offsets
        offsets.begin_cut(offset)
        self._ends_at(offsets.log_end_offset)
        cut = self._files.planned_cut(offset, offsets.log_start_offset)
        self._directory.before_cut(cut)
        offsets.end_at(self._files.truncate_to(offset, now_ms))
        self._ends_at(offsets.log_end_offset)
        # Appends to come leave no gap, or say so before.
        self._directory.gapless_from(offsets.log_end_offset)
        self._producers.rewind(offsets, now_ms)
        offsets.cut_is_done()

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Drop everything; the log is empty and starts and ends at `offset`. If the disk refuses,
        its files are before anything else is written. KafkaError(KAFKA_STORAGE_ERROR).
        """
        try:
            self._directory.before_cut(Cut(offset, self._offsets.log_start_offset, offset))
            self._empty_at(offset, now_ms)
        except StorageError as error:
            raise self._directory.failed(error) from error

    def finish(self) -> None:
        """End a truncation that came to no end. Always raises KafkaError(KAFKA_STORAGE_ERROR): what
        was looked up before is of no use any more.
        """
        assert self._offsets.unfinished_cut is not None
        self.truncate_to(self._offsets.unfinished_cut)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The log was cut just now: try again")

    def _forget_epochs_without_records(self) -> None:
        """A leader that appended nothing has left an epoch at the log end: once another one leads,
        it would look like records that the new leader lacks (KAFKA-10706).
        """
        try:
            self._epochs.truncate_from_end(self._offsets.log_end_offset)
        except StorageError as error:
            raise self._directory.failed(error) from error

    def _ends_at(self, end_offset: int) -> None:
        self._producers.cut_begins_at(end_offset)
        self._epochs.truncate_from_end(end_offset)

    def _empty_at(self, offset: int, now_ms: int) -> None:
        self._offsets.begin_anew_at(offset)
        self._epochs.clear()
        self._producers.begin_anew_at(offset)
        self._files.truncate_fully(offset, now_ms)
        self._directory.gapless_from(offset)
        self._files.snapshots.delete_outside(offset, offset)
        # Before there are records below the start that it had.
        self._directory.before_cut(Cut(offset, offset, offset))
        self._files.activate()
        self._offsets.cut_is_done()
