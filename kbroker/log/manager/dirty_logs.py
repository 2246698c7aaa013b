"""Syncs of logs that nobody waits for: by flush.ms and flush.messages, for full segments, and
before a checkpoint says more than is on the disk.

Law: nothing here waits for the disk, since the event loop owns it: a slow disk would stop all
clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kbroker.clock import Clock
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.file_system import StorageError
from kbroker.log.manager.open_logs import OpenLogs
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_state import PendingFlush


class DirtyLogs:
    """The open logs of a broker, some of which have to be synced."""

    def __init__(self, open_logs: OpenLogs, directories: LogDirectories, clock: Clock) -> None:
        self._open = open_logs
        self._directories = directories
        self._clock = clock

    def flush(self, now_ms: int) -> Iterator[int]:
        """Sync logs that have waited for flush.ms or gathered flush.messages, and segments that are
        full, one log in a step: how many syncs it begins.
        """
        for log in self._open.online_with_futures():
            yield self._flush_if_due(log, now_ms)

    def _flush_if_due(self, log: Log, now_ms: int) -> int:
        waiting = log.log_end_offset - log.offsets.recovery_point
        if waiting <= 0 and not log.files.unsynced.is_due:
            return 0
        is_due = (
            waiting >= log.config.flush_messages
            or now_ms - log.flushes.last_ms >= log.config.flush_ms
        )
        up_to_offset = log.log_end_offset if is_due else log.segments.active.base_offset
        return self._flush(log, up_to_offset, now_ms)

    def flush_up_to(self, log: Log, offset: int) -> None:
        """Begin to bring all below `offset` to the disk."""
        self._flush(log, offset, self._clock.now_ms())

    def _flush(self, log: Log, up_to_offset: int, now_ms: int) -> int:
        pending = log.flushes.begin(up_to_offset, and_closed=True)
        if pending is None:
            return 0
        self._directories.run_write(pending.sync, partial(_flushed, log, pending, now_ms))
        return 1


def _flushed(log: Log, pending: PendingFlush, now_ms: int, error: StorageError | None) -> None:
    """Done, or failed for good; what has to be begun again waits for the next turn."""
    if error is None:
        log.flushes.complete(pending, now_ms)
    else:
        log.flushes.failed(pending, error)
