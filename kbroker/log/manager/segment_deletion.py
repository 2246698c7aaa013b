"""Retention of all logs: takes out the segments beyond it, and removes their files when their time
has come.

Law: the log starts move first and are written down; what is before a start may then go in any
order, as a start does not look there for missing records. The names of the segments that stay are
on the disk before those of the others change. If the starts could not be written, as on a full
disk, segments go one by one, the oldest first, each on the disk before the next: loading must
not find a gap between those that are back. Files are renamed and removed outside the event loop,
which owns this: retention may meet hundreds of segments at once.

Idle producers are forgotten a few logs at a time, and a few of the producers of each: a broker may
have thousands of logs, and a log a hundred thousand producers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from kbroker.errors import KafkaError
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.write_runner import InTurn, Prepared
from kbroker.log.manager.log_checkpoints import LogCheckpoints
from kbroker.log.partition.log import Log
from kbroker.model import TopicPartition

_LOGS_AT_ONCE = 50
_SEGMENTS_AT_ONCE = 100  # less than 1 ms
_FILES_AT_ONCE = 64

_log = logging.getLogger(__name__)


class SegmentDeletion:
    """Looks at logs, and lets go what is old."""

    def __init__(
        self,
        file_system: FileSystem,
        checkpoints: LogCheckpoints,
        upkeep: InTurn,
        on_failure: Callable[[str, StorageError], None],
    ) -> None:
        """`on_failure` hears of (path, error)."""
        self._file_system = file_system
        self._checkpoints = checkpoints
        self._upkeep = upkeep
        self._on_failure = on_failure
        self._is_looking = False

    def look(self, logs: Iterable[Log], now_ms: int) -> None:
        """Begin, unless the last look is still going on."""
        if self._is_looking:
            return
        self._is_looking = True
        self._upkeep.add_steps(self._look(logs, now_ms))

    def remove_due(self, logs: Iterable[Log], now_ms: int) -> Iterator[None]:
        """Begin to remove the files whose delay is over, a step for each log."""
        for log in logs:
            if log.failure is None and not log.is_deleted:
                self._remove_files(log, now_ms)
            yield

    def stop(self) -> None:
        """Drop the work that has not begun."""
        self._upkeep.stop()
        self._is_looking = False

    def _look(self, logs: Iterable[Log], now_ms: int) -> Iterator[None]:
        shrunk: list[Log] = []
        for number, log in enumerate(logs, 1):
            if log.failure is None and not log.is_deleted and self._has_shrunk(log, now_ms):
                shrunk.append(log)
            if number % _LOGS_AT_ONCE == 0:
                yield
        self._write_starts(shrunk, now_ms)

    def _has_shrunk(self, log: Log, now_ms: int) -> bool:
        is_shrunk = False
        try:
            is_shrunk = log.expire_segments(now_ms)
            self._remove_files(log, now_ms)
        except KafkaError:
            pass  # said by the log; its directory is offline, or it is tried again
        except Exception:  # the next log must not fill the disk for it
            _log.exception("Retention of %s failed", log.topic_partition)
        return is_shrunk

    def _write_starts(self, shrunk: list[Log], now_ms: int) -> None:
        def written(refused: frozenset[TopicPartition]) -> None:
            self._is_looking = False
            for log in shrunk:
                count = 1 if log.topic_partition in refused else _SEGMENTS_AT_ONCE
                self._upkeep.add(partial(self._take_out, log, count, now_ms))

        if shrunk:
            wanted = {log.topic_partition: log.log_start_offset for log in shrunk}
            self._checkpoints.write_log_starts(wanted, written)
        else:
            self._is_looking = False

    def _take_out(
        self, log: Log, count: int, now_ms: int, *, is_first: bool = True
    ) -> Prepared | None:
        if log.failure is not None or log.is_deleted or not log.expired_segments():
            return None
        try:
            renaming = log.let_go_of_expired(count, now_ms)
        except KafkaError:
            return None
        directory = log.directory
        has_new_names = is_first and log.files.unsynced.has_new_names

        def rename() -> None:
            if has_new_names:  # without the segments that stay, the log would end before its start
                self._file_system.sync_directory(directory)
            renaming.rename()
            if count == 1:  # else the next flush of the log syncs its directory, once
                self._file_system.sync_directory(directory)

        def renamed(error: StorageError | None) -> None:
            renaming.finish()
            if error is None or error.is_passing:
                again = partial(self._take_out, log, count, now_ms, is_first=error is not None)
                self._upkeep.add(again)
            elif not log.is_deleted:
                self._on_failure(directory, error)

        return rename, renamed

    def _remove_files(self, log: Log, now_ms: int) -> None:
        paths = log.files.take_due(now_ms, log.config.file_delete_delay_ms)
        self._upkeep.add_parts(paths, _FILES_AT_ONCE, partial(self._removal, log))

    def _removal(self, log: Log, paths: Sequence[str]) -> Prepared:
        def remove() -> None:
            for path in paths:
                self._file_system.unlink(path)

        def removed(error: StorageError | None) -> None:
            if error is not None:
                self._on_failure(log.directory, error)

        return remove, removed


class ProducerExpiry:
    """Looks at logs, and lets them forget who is idle."""

    def __init__(self, upkeep: InTurn, expiration_ms: Callable[[], int]) -> None:
        """`expiration_ms` gives `producer.id.expiration.ms` as it is now."""
        self._upkeep = upkeep
        self._expiration_ms = expiration_ms
        self._is_looking = False

    def look(self, logs: Iterable[Log], now_ms: int) -> None:
        """Begin, unless the last look is still going on."""
        if self._is_looking:
            return
        self._is_looking = True
        self._upkeep.add_steps(self._steps(logs, now_ms))

    def _steps(self, logs: Iterable[Log], now_ms: int) -> Iterator[None]:
        try:
            for number, log in enumerate(logs, 1):
                expiry = log.producer_state.remove_expired_in_parts(now_ms, self._expiration_ms())
                next(expiry, None)
                for _ in expiry:
                    yield
                if number % _LOGS_AT_ONCE == 0:
                    yield
        finally:
            self._is_looking = False
