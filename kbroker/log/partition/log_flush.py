"""What a log has to bring to the disk, and what to think of a sync that failed.

Law: nothing here waits for the disk; `PendingFlush.sync` does, on whatever thread it is given to.
A failed sync is never repeated: the kernel may have dropped the pages and would report success.
"""

from __future__ import annotations

from errno import ENOENT

from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.local_log import LocalLog
from kbroker.log.partition.log_state import PendingFlush


def begin(
    log: LocalLog, up_to_offset: int | None = None, *, and_closed: bool = False
) -> PendingFlush | None:
    """See `Log.begin_flush`."""
    end_offset = log.log_end_offset
    if up_to_offset is not None:
        end_offset = min(up_to_offset, end_offset)  # a segment that has to go may begin beyond it
    start_offset = log.recovery_point
    if end_offset <= start_offset:
        unsynced = log.files.unsynced
        if not and_closed or not (unsynced.is_due or unsynced.has_new_place):
            return None
        start_offset = end_offset
    return log.files.begin_flush(
        start_offset=start_offset,
        end_offset=end_offset,
        epochs=log.leader_epoch_cache.changes,
        cuts=log.cuts,
    )


def recovery_point_to_note(log: LocalLog) -> int:
    """The recovery point as a checkpoint may name it: recovery begins with the segment that holds
    it, and must not leave out one whose indexes are not on the disk.

    An active segment that is on the disk to its end could be closed right there.
    """
    files = log.files
    first_closed = files.unsynced.first_closed_offset
    if first_closed is not None:
        return min(log.recovery_point, first_closed)
    could_be_closed = files.is_active_open and log.recovery_point == log.log_end_offset
    if could_be_closed and files.segments.active.size_bytes:
        return log.recovery_point - 1
    return log.recovery_point


def may_begin_again(log: LocalLog, flush: PendingFlush, error: StorageError) -> bool:
    """True where a sync failed for no fault of the disk: no descriptor was free, or files were
    renamed or removed meanwhile by the log itself.
    """
    if log.failure is not None or log.is_deleted:
        return False
    if error.errno == ENOENT:
        now = begin(log, flush.end_offset, and_closed=True)
        # None: retention has taken the files, and nothing waits for a sync any more.
        return now is None or (now.files, now.directories) != (flush.files, flush.directories)
    return error.is_out_of_descriptors
