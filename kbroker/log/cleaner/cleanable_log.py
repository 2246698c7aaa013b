"""Finds the part of a log that may be cleaned, how dirty it is, and the job that cleans it (KIP-58,
KIP-354).

Law: nothing at or beyond the last stable offset, in the active segment, or younger than
min.compaction.lag.ms is cleaned, and only whole segments are: readers may still need those records,
and appends may still reach that segment. Nothing here changes a log.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NamedTuple

from kbroker.config.config_values import MAX_LONG
from kbroker.log.cleaner.cleaning_job import CleanerLimits, CleaningJob, SourceSegment
from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kbroker.log.partition.log import Log
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.transaction_index import AbortedTxn

_log = logging.getLogger(__name__)


class CleanableRange(NamedTuple):
    """Offsets: first dirty inclusive, first uncleanable exclusive."""

    first_dirty_offset: int
    first_uncleanable_offset: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LogToClean:
    """A log with its cleanable range, which ends where a segment does, and its sizes in bytes."""

    log: Log
    range: CleanableRange
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool  # max.compaction.lag.ms is over for some of it

    @property
    def cleanable_ratio(self) -> float:
        """Share of what could be cleaned in all that is or could be clean."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """True if it is dirty enough, or has waited long enough."""
        if self.is_overdue and self.cleanable_bytes:
            return True
        return self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


def first_dirty_offset(log: Log) -> int:
    """The offset at which the checkpoint lets cleaning go on; the log start if that cannot be."""
    start_offset = log.log_start_offset
    checkpoint = start_offset if log.cleaned_end_offset is None else log.cleaned_end_offset
    if checkpoint < start_offset:
        # With the policy delete as well, retention does this all the time.
        if not log.config.is_deleted:
            _log.warning(
                "Resetting first dirty offset of %s to log start offset %d since the checkpointed "
                "offset %d is invalid.",
                log.topic_partition,
                start_offset,
                checkpoint,
            )
        return start_offset
    if checkpoint > log.log_end_offset:
        _log.warning(
            "The last checkpoint dirty offset for partition %s is %d, which is larger than the log "
            "end offset %d. Resetting to the log start offset %d.",
            log.topic_partition,
            checkpoint,
            log.log_end_offset,
            start_offset,
        )
        return start_offset
    return checkpoint


def cleanable_range(log: Log, first_dirty: int, now_ms: int) -> CleanableRange:
    """From the first dirty offset up to the first one that has to stay as it is."""
    bounds = [log.last_stable_offset, log.segments.active.base_offset]
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        young = (
            segment.base_offset
            for segment in _inactive_from(log, first_dirty)
            if segment.largest_timestamp > now_ms - lag_ms
        )
        bounds += [offset for offset in (next(young, None),) if offset is not None]
    return CleanableRange(first_dirty, max(first_dirty, min(bounds)))


def log_to_clean(log: Log, first_dirty: int, now_ms: int) -> LogToClean:
    """Describe the cleaning that the log would get now."""
    first_uncleanable = cleanable_range(log, first_dirty, now_ms).first_uncleanable_offset
    following = _inactive_from(log, first_uncleanable)
    end_offset = (following[0] if following else log.segments.active).base_offset
    clean_bytes = cleanable_bytes = 0
    for segment in log.segments:
        if segment.base_offset < first_dirty:
            clean_bytes += segment.size_bytes
    if first_dirty < end_offset:
        cleanable_bytes = sum(s.size_bytes for s in log.segments.between(first_dirty, end_offset))
    return LogToClean(
        log,
        CleanableRange(first_dirty, end_offset),
        clean_bytes,
        cleanable_bytes,
        _is_overdue(log, first_dirty, now_ms),
    )


def cleaning_job(
    target: LogToClean, file_system: FileSystem, limits: CleanerLimits, now_ms: int
) -> CleaningJob:
    """The job that cleans a log up to the end of its cleanable range. Raises StorageError."""
    log, config = target.log, target.log.config
    first_dirty, end_offset = target.range
    producers = log.producer_state.producers
    return CleaningJob(
        topic=log.topic_partition.topic,
        partition=log.topic_partition.partition,
        directory=log.directory,
        segments=tuple(
            _source(segment, file_system)
            for segment in log.segments
            if segment.base_offset < end_offset
        ),
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=end_offset,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        aborted=tuple(_aborted(log, end_offset)),
        last_records={
            producer_id: (
                entry.batches[-1].last_offset if entry.batches else None,
                entry.producer_epoch,
            )
            for producer_id, entry in producers.items()
        },
        limits=limits,
    )


def _inactive_from(log: Log, offset: int) -> list[LogSegment]:
    """The segments that may hold `offset` or anything after it, without the active one."""
    active = log.segments.active
    if offset > active.base_offset:
        return []
    return log.segments.between(offset, active.base_offset) if offset < active.base_offset else []


def _is_overdue(log: Log, first_dirty: int, now_ms: int) -> bool:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == MAX_LONG:
        return False
    first_times = (segment.first_batch_timestamp for segment in _inactive_from(log, first_dirty))
    return any(time is not None and 0 < time < now_ms - lag_ms for time in first_times)


def _source(segment: LogSegment, file_system: FileSystem) -> SourceSegment:
    path = segment.records.path
    return SourceSegment(
        base_offset=segment.base_offset,
        path=path,
        size_bytes=segment.size_bytes,
        offset_index_bytes=segment.offset_index.entry_count * OFFSET_INDEX_ENTRY.size,
        time_index_bytes=segment.time_index.entry_count * TIME_INDEX_ENTRY.size,
        modified_ms=file_system.modified_ms(path),
    )


def _aborted(log: Log, end_offset: int) -> list[AbortedTxn]:
    """The aborted transactions that touch the log below `end_offset`; the entry of one is in the
    segment of its marker, which may be a later one.
    """
    found: list[AbortedTxn] = []
    for segment in log.segments.with_aborted(log.segments[0].base_offset):
        entries, is_complete = segment.transaction_index.collect(log.log_start_offset, end_offset)
        found += entries
        if is_complete:
            break
    return found
