"""The syncs of a log: what has to come to the disk, and what a failed one means.

Law: nothing here waits for the disk; `PendingFlush.sync` does, on whatever thread it is given to.
A failed sync is never repeated: the kernel may have dropped the pages and would report success.
"""

from __future__ import annotations

from errno import ENOENT

from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log_parts import LogParts
from kbroker.log.partition.log_state import PendingFlush


class LogFlush:
    """The syncs of one log."""

    __slots__ = ("_parts", "last_ms")

    def __init__(self, parts: LogParts) -> None:
        self.last_ms = 0
        self._parts = parts

    def count_from(self, now_ms: int) -> None:
        """Let `flush.ms` begin now."""
        self.last_ms = now_ms

    def begin(
        self, up_to_offset: int | None = None, *, and_closed: bool = False
    ) -> PendingFlush | None:
        """Return the syncs that bring all below `up_to_offset` (None: log end) to the disk, if any;
        `and_closed`: also if only files of closed segments wait for it.
        """
        offsets = self._parts.offsets
        end_offset = offsets.log_end_offset
        if up_to_offset is not None:
            end_offset = min(up_to_offset, end_offset)  # a segment that goes may begin beyond it
        start_offset = offsets.recovery_point
        if end_offset <= start_offset:
            unsynced = self._parts.files.unsynced
            if not and_closed or not (unsynced.is_due or unsynced.has_new_place):
                return None
            start_offset = end_offset
        return self._parts.files.begin_flush(
            start_offset=start_offset,
            end_offset=end_offset,
            epochs=self._parts.epochs.changes,
            cuts=offsets.cuts,
        )

    def complete(self, flush: PendingFlush, now_ms: int = 0) -> None:
        """All of `flush` has been synced: recovery may start after its records."""
        self.last_ms = now_ms
        # After a cut, other records have those offsets; and the system reports a failed sync once.
        if flush.cuts == self._parts.offsets.cuts and self._parts.directory.failure is None:
            self._parts.files.unsynced.synced(flush.marks)
            self._parts.offsets.flushed_to(flush.end_offset)

    def failed(self, flush: PendingFlush, error: StorageError) -> bool:
        """The sync of `flush` failed, and the log with it; True if it is to be begun again."""
        if self._may_begin_again(flush, error):
            return True
        if not self._parts.directory.is_deleted:
            self._parts.directory.failed(error)
        return False

    def recovery_point_to_note(self) -> int:
        """The recovery point as a checkpoint may name it: recovery begins with the segment that
        holds it, and must not leave out one whose indexes are not on the disk.

        An active segment that is on the disk to its end could be closed right there.
        """
        offsets, files = self._parts.offsets, self._parts.files
        first_closed = files.unsynced.first_closed_offset
        if first_closed is not None:
            return min(offsets.recovery_point, first_closed)
        could_be_closed = files.is_active_open and offsets.recovery_point == offsets.log_end_offset
        if could_be_closed and files.segments.active.size_bytes:
            return offsets.recovery_point - 1
        return offsets.recovery_point

    def _may_begin_again(self, flush: PendingFlush, error: StorageError) -> bool:
        """Whether a sync failed for no fault of the disk: no descriptor was free, or files were
        renamed or removed meanwhile by the log itself.
        """
        if self._parts.directory.failure is not None or self._parts.directory.is_deleted:
            return False
        if error.errno == ENOENT:
            now = self.begin(flush.end_offset, and_closed=True)
            # None: retention has taken the files, and nothing waits for a sync any more.
            return now is None or (now.files, now.directories) != (flush.files, flush.directories)
        return error.is_out_of_descriptors
