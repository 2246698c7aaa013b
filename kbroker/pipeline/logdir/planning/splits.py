"""Parts the ranges of some logs into tasks, and tasks into Spark partitions.

A segment that is larger than a split is cut at batches that its offset index names; many small ones
go together. Law: every readable offset of a range is in exactly one task, so that no record is lost
or read twice. Pure over a FileSystem, no Spark. Segments that hold nothing wanted are left out: by
offset always, by time if a closed segment's time index can be trusted, which a power failure may
have cut after the recovery point.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import MAX_OFFSET, log_file
from kbroker.pipeline.logdir.directory.log_catalog import ReadableLog
from kbroker.pipeline.logdir.directory.partition_log import FoundSegment, PartitionLog
from kbroker.pipeline.logdir.directory.segment_lookup import SegmentLookup, SplitPoint, header_bytes
from kbroker.pipeline.logdir.directory.transaction_scan import aborted_transactions
from kbroker.pipeline.logdir.segment_task import AbortedTransaction, SegmentTask
from kbroker.pipeline.spark_job.offsets import OffsetRange

MAX_PARTITION_BYTES = 128 * 1024 * 1024  # as spark.sql.files.maxPartitionBytes
_LEAST_SPLIT_BYTES = 4 * 1024 * 1024
_OPEN_COST_BYTES = 256 * 1024  # to open a file and begin a task costs as much as reading so far


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """How much one Spark partition reads."""

    max_partition_bytes: int = MAX_PARTITION_BYTES
    min_partitions: int | None = None  # None: two for each processor of this machine
    min_timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """A task, and how its segment looked when it was planned.

    Its offsets are all of the log in that stretch, so that they can be planned again if the segment
    is gone or was replaced.
    """

    task: SegmentTask
    topic_id: UUID | None  # None: not known
    segment: FoundSegment
    is_closed: bool  # nothing was to be appended any more
    head: bytes  # of the first batch

    @property
    def size_bytes(self) -> int:
        return self.task.end_position - self.task.start_position

    def is_current(self, file_system: FileSystem) -> bool:
        """False if the segment has changed. Raises StorageError if it is gone."""
        task, segment = self.task, self.segment
        path = task.path
        size = file_system.size(path)
        if self.is_closed and (size, file_system.modified_ms(path)) != (
            segment.size_bytes,
            segment.modified_ms,
        ):
            return False
        if size < task.end_position:
            return False
        return header_bytes(file_system, path, task.start_position) == self.head


@dataclass(frozen=True, slots=True)
class LogStretch:
    """Offsets of a log that are to be read, without the aborted transactions."""

    log: PartitionLog
    offsets: OffsetRange
    aborted: tuple[AbortedTransaction, ...] = ()


def stretch_of(file_system: FileSystem, found: ReadableLog, offsets: OffsetRange) -> LogStretch:
    """The stretch without the transactions that its readers leave out. Raises StorageError."""
    if found.transactions is None or not offsets.count:
        return LogStretch(found.log, offsets)
    aborted = aborted_transactions(file_system, found.log, found.transactions, offsets.start)
    return LogStretch(found.log, offsets, aborted)


def plan(
    file_system: FileSystem, stretches: Sequence[LogStretch], options: SplitOptions
) -> list[tuple[PlannedTask, ...]]:
    """Part the stretches into Spark partitions; they stay in their order.

    Raises StorageError, with ENOENT if a segment went meanwhile: look for the logs again.
    """
    split_bytes = _split_bytes(stretches, options)
    tasks = [
        task
        for stretch in stretches
        for task in planned_tasks(file_system, stretch, options, split_bytes)
    ]
    return _grouped(tasks, split_bytes)


def planned_tasks(
    file_system: FileSystem,
    stretch: LogStretch,
    options: SplitOptions,
    split_bytes: int = MAX_PARTITION_BYTES,
) -> Iterator[PlannedTask]:
    """Yield the tasks of one stretch, by offset. Raises StorageError."""
    log, offsets = stretch.log, stretch.offsets
    bases = [segment.base_offset for segment in log.segments]
    for segment, next_base in zip(log.segments, [*bases[1:], None], strict=True):
        is_closed = next_base is not None or not log.is_live
        end_offset = offsets.end if next_base is None else min(offsets.end, next_base)
        start_offset = max(offsets.start, segment.base_offset)
        if start_offset >= end_offset or not segment.size_bytes:
            continue
        lookup = SegmentLookup(file_system, log.directory, segment.base_offset)
        is_whole = next_base is not None and end_offset == next_base
        is_settled = next_base is not None and next_base <= log.trusted_offset
        if is_whole and is_settled and _is_too_old(lookup, options.min_timestamp_ms):
            continue
        start = lookup.floor(start_offset) if start_offset > segment.base_offset else 0
        end = segment.size_bytes if is_whole else lookup.end_position(end_offset)
        if start >= end:
            continue
        cuts = [
            SplitPoint(start, start_offset),
            *(
                cut
                for cut in lookup.cuts(start, end, split_bytes)
                if start_offset < cut.offset < end_offset
            ),
            SplitPoint(end, end_offset),
        ]
        yield from _pieces(file_system, stretch, segment, cuts, next_base, is_closed=is_closed)


def _pieces(
    file_system: FileSystem,
    stretch: LogStretch,
    segment: FoundSegment,
    cuts: Sequence[SplitPoint],
    next_base: int | None,
    *,
    is_closed: bool,
) -> Iterator[PlannedTask]:
    log = stretch.log
    topic, partition = log.topic_partition
    path = log_file(log.directory, segment.base_offset)
    for first, last in pairwise(cuts):
        task = SegmentTask(
            directory=log.directory,
            topic=topic,
            partition=partition,
            segment_base_offset=segment.base_offset,
            start_position=first.position,
            end_position=last.position,
            start_offset=first.offset,
            end_offset=last.offset,
            aborted=tuple(
                each
                for each in stretch.aborted
                if each.first_offset < last.offset and each.last_offset >= first.offset
            ),
            segment_end_offset=MAX_OFFSET if next_base is None else next_base,
        )
        head = header_bytes(file_system, path, first.position)
        yield PlannedTask(
            task=task, topic_id=log.topic_id, segment=segment, is_closed=is_closed, head=head
        )


def _is_too_old(lookup: SegmentLookup, min_timestamp_ms: int | None) -> bool:
    if min_timestamp_ms is None:
        return False
    largest = lookup.largest_timestamp()
    return largest is not None and largest < min_timestamp_ms


def _split_bytes(stretches: Sequence[LogStretch], options: SplitOptions) -> int:
    """Choose a size that gives every processor work, and makes a task worth its start."""
    total = sum(
        segment.size_bytes + _OPEN_COST_BYTES
        for stretch in stretches
        if stretch.offsets.count
        for segment in stretch.log.segments
    )
    at_least = options.min_partitions or 2 * (os.cpu_count() or 1)
    return min(options.max_partition_bytes, max(total // at_least, _LEAST_SPLIT_BYTES))


def _grouped(tasks: Sequence[PlannedTask], split_bytes: int) -> list[tuple[PlannedTask, ...]]:
    groups: list[tuple[PlannedTask, ...]] = []
    group: list[PlannedTask] = []
    cost = 0
    for task in tasks:
        task_cost = task.size_bytes + _OPEN_COST_BYTES
        if group and cost + task_cost > split_bytes + _OPEN_COST_BYTES:
            groups.append(tuple(group))
            group, cost = [], 0
        group.append(task)
        cost += task_cost
    return [*groups, tuple(group)] if group else groups
