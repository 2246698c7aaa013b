"""LogCleaner: looks for the dirtiest compacted log, has it cleaned, and puts what comes out in its
place.

Law: one cleaning per log. A cleaning reads segments that nobody writes to any more and makes files
that nobody else knows. Only this class changes the log itself, and only while it still is what was
cleaned, so that no change made meanwhile is lost. A log that cannot be understood is left alone
until the broker starts again; one whose disk refuses takes its data directory offline as anywhere
else.

Owned by the event loop. A runner carries out the jobs and calls back in the loop's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from errno import ENOENT
from functools import partial
from typing import Protocol

from kbroker.clock import Clock, Timer, TimerHandle
from kbroker.config.log_config import LogConfig
from kbroker.counters import CounterRegistry, Row
from kbroker.errors import KafkaError
from kbroker.log.cleaner.cleanable_log import (
    LogToClean,
    cleaning_job,
    first_dirty_offset,
    log_to_clean,
)
from kbroker.log.cleaner.cleaner_checkpoints import CleanerCheckpoints
from kbroker.log.cleaner.cleaner_metrics import CleanerMetrics
from kbroker.log.cleaner.cleaning_job import (
    CleanedGroup,
    CleanerLimits,
    CleaningDone,
    CleaningEnd,
    CleaningFailed,
    CleaningJob,
)
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import CLEANED_SUFFIX
from kbroker.log.disk.write_runner import WriteRunner
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.log.segments.index_file import CorruptIndexError
from kbroker.log.segments.segment_swap import SegmentSwap

_MAX_MAP_BYTES = 2**31 - 1  # as in Kafka, per thread
_MIN_READ_BYTES = 4096
_MIB = 1024 * 1024
_HELD_BYTES = 256 * _MIB
_SYNC_AGAIN_MS = 100.0

_log = logging.getLogger(__name__)


class CleanerRunner(Protocol):
    """Carries out jobs, several at a time."""

    def run(
        self,
        job: CleaningJob,
        on_group: Callable[[CleanedGroup], None],
        on_end: Callable[[CleaningEnd | None], None],
    ) -> Callable[[], None]:
        """Begin; the way to abort it comes back. `on_end` is called once, last, and later than
        this returns, with None for a job that was aborted.
        """

    def rest(self) -> None:
        """Give back what an idle runner need not hold."""


@dataclass(slots=True, eq=False, repr=False)
class _Cleaning:
    """One log in work."""

    log: Log
    job: CleaningJob
    cuts: int  # of the log when this began: after another one, segments hold other records
    abort: Callable[[], None] = lambda: None
    held: list[CleanedGroup] = field(default_factory=list)  # cleaned, and to be swapped in
    held_bytes: int = 0  # of their sources
    open_swaps: int = 0
    was_overtaken: bool = False  # the log changed: nothing more of this goes into it
    has_ended: bool = False
    end: CleaningEnd | None = field(default=None)


class LogCleaner:
    """All cleaning of a broker. `start`, then it goes on by itself until `stop`."""

    def __init__(
        self,
        logs: LogManager,
        settings: Callable[[], LogConfig],
        file_system: FileSystem,
        clocks: tuple[Clock, Timer],
        runner: CleanerRunner,
        run_write: WriteRunner,
    ) -> None:
        """`settings` gives those in force at the moment."""
        self._logs = logs
        self._settings = settings
        self._file_system = file_system
        self._clock, self._timer = clocks
        self._runner = runner
        self._run_write = run_write
        self._checkpoints = CleanerCheckpoints(logs, run_write)
        self._running: list[_Cleaning] = []
        self._uncleanable: set[Log] = set()
        self._next_look: TimerHandle | None = None
        self._is_stopped = False
        self._metrics = CleanerMetrics()

    def register(self, counters: CounterRegistry) -> None:
        """Register what is counted and measured of compaction."""
        self._metrics.register(counters, self._left_as_they_are)

    def _left_as_they_are(self) -> Iterator[Row]:
        for directory in self._logs.online_directories:
            left = [log for log in self._uncleanable if log.directory.startswith(f"{directory}/")]
            yield (directory,), (len(left), sum(log.segments.size_bytes for log in left))

    def start(self) -> None:
        """Read how far each log was cleaned, and look for work from now on."""
        self._checkpoints.load()
        self._look_later(self._settings().log_cleaner_backoff_ms)

    def stop(self) -> None:
        """Begin nothing more and abort what is going on; the runner tells when that is done."""
        self._is_stopped = True
        if self._next_look is not None:
            self._next_look.cancel()
        for cleaning in self._running:
            cleaning.abort()

    def look(self) -> None:
        """Begin as many cleanings as there are dirty logs and threads."""
        if self._is_stopped:
            return
        settings = self._settings()
        self._look_later(max(1, settings.log_cleaner_backoff_ms))  # whatever comes of this look
        self._checkpoints.save()
        if self._uncleanable:
            self._uncleanable &= set(self._logs.all_logs())
        while len(self._running) < settings.log_cleaner_threads:
            target = self._dirtiest()
            if target is None or not self._begin(target, settings):
                break
        if not self._running:
            self._runner.rest()

    def _look_later(self, delay_ms: float) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
        self._next_look = self._timer.call_later(delay_ms, self.look)

    # Choosing

    def _dirtiest(self) -> LogToClean | None:
        busy = {id(cleaning.log) for cleaning in self._running}
        due = []
        for log in self._logs.all_logs():
            if not log.config.is_compacted or log.failure is not None:
                continue
            if log.offsets.copied_up_to is not None:  # it moves to another disk: its offsets stay
                continue
            if id(log) not in busy and log not in self._uncleanable:
                target = self._examine(log)
                if target is not None and target.is_due:
                    due.append(target)
        return max(due, key=lambda target: target.cleanable_ratio, default=None)

    def _examine(self, log: Log) -> LogToClean | None:
        try:
            first_dirty = first_dirty_offset(log)
            if log.cleaned_end_offset not in (None, first_dirty):
                log.offsets.cleaned_to(first_dirty)
            return log_to_clean(log, first_dirty, self._clock.now_ms())
        except StorageError as error:
            self._disk_failed(log, error)
        except (KafkaError, CorruptIndexError) as error:
            self._mark_uncleanable(log, str(error))
        return None

    def _begin(self, target: LogToClean, settings: LogConfig) -> bool:
        """False if it could not begin, and could at another time."""
        try:
            job = cleaning_job(target, self._file_system, _limits(settings), self._clock.now_ms())
        except StorageError as error:
            self._disk_failed(target.log, error)
            if error.is_passing:
                return False
            self._uncleanable.add(target.log)
            return True
        except CorruptIndexError as error:
            self._mark_uncleanable(target.log, str(error))
            return True
        _log.info(
            "Beginning cleaning of log %s, offsets %d to %d are dirty",
            target.log.topic_partition,
            job.first_dirty_offset,
            job.first_uncleanable_offset,
        )
        cleaning = _Cleaning(target.log, job, target.log.offsets.cuts)
        cleaning.abort = self._runner.run(
            job,
            lambda group: self._cleaned(cleaning, group),
            lambda end: self._ended(cleaning, end),
        )
        self._running.append(cleaning)
        return True

    def _guarded(self, cleaning: _Cleaning, step: Callable[[], None]) -> bool:
        """Take a step; False if this log's cleaning is over, for its disk or for a fault of the
        program: others are cleaned, and this one is not left half way.
        """
        try:
            step()
        except StorageError as error:
            self._overtake(cleaning)
            self._disk_failed(cleaning.log, error)
            return False
        except Exception as error:
            _log.exception("Cleaning of log %s failed", cleaning.log.topic_partition)
            self._overtake(cleaning)
            self._mark_uncleanable(cleaning.log, repr(error))
            return False
        return True

    # What comes out

    def _cleaned(self, cleaning: _Cleaning, group: CleanedGroup) -> None:
        """Hold small segments back, to swap several with the same syncs of the directory: each
        lets a producer wait whose append meets it.
        """
        self._guarded(cleaning, lambda: self._hold(cleaning, group))

    def _hold(self, cleaning: _Cleaning, group: CleanedGroup) -> None:
        sizes = {segment.base_offset: segment.size_bytes for segment in cleaning.job.segments}
        cleaning.held.append(group)
        cleaning.held_bytes += sum(sizes[offset] for offset in group.sources)
        if cleaning.held_bytes >= _HELD_BYTES:
            self._swap_in(cleaning)

    def _swap_in(self, cleaning: _Cleaning) -> None:
        groups, cleaning.held, cleaning.held_bytes = cleaning.held, [], 0
        if self._is_stopped or not self._is_current(cleaning):
            self._overtake(cleaning)
        elif groups:
            cleaning.open_swaps += 1
            self._flush_then(cleaning, lambda: self._begin_swaps(cleaning, groups))

    def _begin_swaps(self, cleaning: _Cleaning, groups: list[CleanedGroup]) -> None:
        # With all names safe, a start that finds a `.cleaned` file knows of a swap undone.
        below = cleaning.job.first_uncleanable_offset
        expect_gaps = partial(cleaning.log.partition_directory.before_gap, below)
        self._sync_then(cleaning, lambda: self._stage(cleaning, groups), expect_gaps)

    def _stage(self, cleaning: _Cleaning, groups: list[CleanedGroup]) -> None:
        staged: list[SegmentSwap] = []
        for group in groups if self._is_current(cleaning) else ():
            swap = cleaning.log.files.begin_swap(group.base_offset, group.sources)
            if swap is None or not swap.stage():
                break
            staged.append(swap)
        if len(staged) < len(groups):
            for swap in staged:
                swap.cancel()
            self._overtake(cleaning)
            self._swap_closed(cleaning)
            return
        self._sync_then(cleaning, lambda: self._take_over(cleaning, staged))

    def _take_over(self, cleaning: _Cleaning, swaps: list[SegmentSwap]) -> None:
        remove_at_ms = self._clock.now_ms() + cleaning.log.config.file_delete_delay_ms
        taken = [swap.take_over(remove_at_ms) for swap in swaps]
        if not all(taken):
            self._overtake(cleaning)

        def finish() -> None:
            for swap in swaps:
                swap.finish()
            self._sync_then(cleaning, lambda: self._swap_closed(cleaning))

        self._sync_then(cleaning, finish)

    def _sync_then(
        self,
        cleaning: _Cleaning,
        following: Callable[[], None],
        beside: Callable[[], None] = lambda: None,
    ) -> None:
        """Bring the last step to the disk, and `beside`, then take the next one."""
        directory = cleaning.log.directory

        def write() -> None:
            self._file_system.sync_directory(directory)
            beside()

        def sync() -> None:
            self._run_write(write, synced)

        def synced(error: StorageError | None) -> None:
            if error is not None and error.is_out_of_descriptors and not self._is_stopped:
                self._timer.call_later(_SYNC_AGAIN_MS, sync)  # nothing is lost, and it passes
            elif not self._guarded(cleaning, lambda: _raise_or(error, following)):
                self._give_up_swaps(cleaning.log)
                self._swap_closed(cleaning)

        sync()

    def _flush_then(self, cleaning: _Cleaning, following: Callable[[], None]) -> None:
        """Bring what was read to the disk, then go on: a record goes for a newer one of its key,
        which may lie in a segment whose swap a loss of power undoes.
        """
        log = cleaning.log
        end_offset = min(cleaning.job.first_uncleanable_offset, log.log_end_offset)
        pending = log.flushes.begin(end_offset) if self._is_current(cleaning) else None
        if pending is None:
            following()
            return

        def flushed(error: StorageError | None) -> None:
            if error is None:
                log.flushes.complete(pending, self._clock.now_ms())
                again()
            elif log.flushes.failed(pending, error) and not self._is_stopped:
                self._timer.call_later(_SYNC_AGAIN_MS, again)
            else:
                self._overtake(cleaning)
                self._swap_closed(cleaning)

        def again() -> None:
            if not self._guarded(cleaning, lambda: self._flush_then(cleaning, following)):
                self._swap_closed(cleaning)

        self._run_write(pending.sync, flushed)

    def _give_up_swaps(self, log: Log) -> None:
        """Undo swaps that are not in force. What is in force keeps its `.swap` name until the next
        start, which finishes it: another swap would need that name.
        """
        if log.failure is not None:
            return  # the next start undoes them
        reason = "segments in use have no final names yet" if log.files.has_unfinished_swap else ""
        try:
            for swap in list(log.files.swaps):
                swap.cancel()
        except StorageError as error:
            self._disk_failed(log, error)
            reason = str(error)
        if reason:
            self._mark_uncleanable(log, reason)

    def _swap_closed(self, cleaning: _Cleaning) -> None:
        cleaning.open_swaps -= 1
        self._close_if_done(cleaning)

    def _overtake(self, cleaning: _Cleaning) -> None:
        if not cleaning.was_overtaken:
            cleaning.was_overtaken = True
            cleaning.abort()

    def _is_current(self, cleaning: _Cleaning) -> bool:
        log = cleaning.log
        return (
            not cleaning.was_overtaken
            and log.offsets.cuts == cleaning.cuts
            and log.failure is None
            and log.config.is_compacted
            and log.offsets.copied_up_to is None
            and self._logs.get_log(log.topic_partition) is log
        )

    # The end

    def _ended(self, cleaning: _Cleaning, end: CleaningEnd | None) -> None:
        cleaning.end = end
        if isinstance(end, CleaningDone):
            self._guarded(cleaning, lambda: self._swap_in(cleaning))
        cleaning.has_ended = True
        self._close_if_done(cleaning)

    def _close_if_done(self, cleaning: _Cleaning) -> None:
        if not cleaning.has_ended or cleaning.open_swaps:
            return
        self._running.remove(cleaning)
        end = cleaning.end
        if isinstance(end, CleaningDone) and self._is_current(cleaning):
            cleaning.log.offsets.cleaned_to(end.end_offset)
            self._checkpoints.save()
            self._metrics.cleaned(end)
            _log_stats(cleaning, end)
            if not self._is_stopped:
                self._look_later(0)  # there may be more
            return
        if isinstance(end, CleaningFailed) and self._is_current(cleaning):
            self._failed(cleaning.log, end)
        self._remove_leftovers(cleaning)

    def _failed(self, log: Log, end: CleaningFailed) -> None:
        if not end.path:
            self._mark_uncleanable(log, end.reason)
            return
        error = StorageError(end.path, end.operation, end.errno)
        if error.errno == ENOENT and not self._file_system.exists(end.path):
            return  # retention was faster
        self._disk_failed(log, error)

    def _disk_failed(self, log: Log, error: StorageError) -> None:
        if error.is_passing:
            _log.warning("Cleaning of log %s will be tried again: %s", log.topic_partition, error)
        elif error.errno != ENOENT or self._logs.get_log(log.topic_partition) is log:
            self._logs.fail_directory(log.directory, error)

    def _mark_uncleanable(self, log: Log, reason: str) -> None:
        self._uncleanable.add(log)
        _log.warning(
            "Log %s will not be cleaned until the broker starts again: %s",
            log.topic_partition,
            reason,
        )

    def _remove_leftovers(self, cleaning: _Cleaning) -> None:
        directory = cleaning.log.directory
        try:
            for name in self._file_system.list(directory):
                if name.endswith(CLEANED_SUFFIX):
                    self._file_system.unlink(f"{directory}/{name}")
        except StorageError as error:
            _log.debug("the next start removes what is left of a cleaning: %s", error)


def _raise_or(error: StorageError | None, following: Callable[[], None]) -> None:
    if error is not None:
        raise error
    following()


def _limits(settings: LogConfig) -> CleanerLimits:
    threads = max(1, settings.log_cleaner_threads)
    return CleanerLimits(
        map_bytes=min(settings.log_cleaner_dedupe_buffer_size // threads, _MAX_MAP_BYTES),
        load_factor=settings.log_cleaner_io_buffer_load_factor,
        read_bytes=max(_MIN_READ_BYTES, settings.log_cleaner_io_buffer_size // threads // 2),
        bytes_per_s=settings.log_cleaner_io_max_bytes_per_second / threads,
    )


def _log_stats(cleaning: _Cleaning, end: CleaningDone) -> None:
    stats = end.stats
    _log.info(
        "Cleaned log %s up to offset %d in %.1f s: %.1f MiB with %d records became %.1f MiB with "
        "%d; %d keys in %.1f MiB, %.1f %% of the offset map",
        cleaning.log.topic_partition,
        end.end_offset,
        end.elapsed_s,
        stats.bytes_read / _MIB,
        stats.records_read,
        stats.bytes_written / _MIB,
        stats.records_written,
        stats.map_records,
        stats.map_used_bytes / _MIB,
        100 * stats.map_utilization,
    )
    if stats.keyless_records:
        _log.warning(
            "Log %s had %d records without a key, which a compacted log cannot keep",
            cleaning.log.topic_partition,
            stats.keyless_records,
        )
    if stats.unreadable_batches:
        _log.warning(
            "Log %s keeps batches as they are that cannot be read, %d of them, the first at %s",
            cleaning.log.topic_partition,
            stats.unreadable_batches,
            stats.first_unreadable,
        )
    if stats.damaged_segments:
        _log.warning(
            "Log %s keeps segments as they are that are damaged, %d of them, the first is %s",
            cleaning.log.topic_partition,
            stats.damaged_segments,
            stats.first_damaged,
        )
