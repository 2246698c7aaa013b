"""Reads the tasks planned for one Spark partition, in the process of a worker.

Law: a segment that changed since it was planned is not read by its old positions: its offsets are
looked up again, whether the cleaner replaced it or retention removed it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from kbroker.inspection.data_directory import partition_directory
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.decode.damage import DamagedBatchError
from kbroker.pipeline.logdir.decode.header_columns import header_batches
from kbroker.pipeline.logdir.decode.record_columns import record_batches
from kbroker.pipeline.logdir.directory.disk_refusal import refused_by_disk
from kbroker.pipeline.logdir.directory.log_catalog import ReadableLog
from kbroker.pipeline.logdir.directory.partition_log import (
    Disk,
    PartitionLog,
    find_log,
    reaching,
)
from kbroker.pipeline.logdir.planning.held_segment import HeldSegment, held_segment
from kbroker.pipeline.logdir.planning.read_ranges import (
    GO_ON,
    available,
    check_same_topic,
    is_of_topic,
)
from kbroker.pipeline.logdir.planning.splits import (
    LogStretch,
    PlannedTask,
    SplitOptions,
    planned_tasks,
)
from kbroker.pipeline.logdir.segment_task import ReadOptions, SegmentTask
from kbroker.pipeline.spark_job.offsets import OffsetRange

_LAST_OFFSET = "lastOffset"
_ATTEMPTS = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReading:
    """The way a split is read. Values that can be pickled."""

    read: ReadOptions
    is_batch_detail: bool
    skips_damage: bool
    fails_on_data_loss: bool


def read_split(
    disk: Disk, tasks: Sequence[PlannedTask], reading: SplitReading
) -> Iterator[pa.RecordBatch]:
    """The rows of the tasks, one after the other. Raises PipelineError."""
    for planned in tasks:
        waiting = [planned]
        replanned = 0
        while waiting:
            each = waiting.pop(0)
            held = held_segment(disk.file_system, each)
            if held is not None:
                try:
                    yield from _read(held, each.task, reading)
                finally:
                    held.release()
                continue
            replanned += 1
            if replanned > _ATTEMPTS:
                raise PipelineError(
                    f"{each.task.directory} keeps changing: its segments are replaced all the "
                    "time; try again"
                )
            waiting = [*_planned_anew(disk, each, reading), *waiting]


def _planned_anew(disk: Disk, planned: PlannedTask, reading: SplitReading) -> list[PlannedTask]:
    task, fails = planned.task, reading.fails_on_data_loss
    wanted = OffsetRange(task.start_offset, task.end_offset)
    try:
        log = _log_now(disk, task)
        if log is None:
            if not fails:
                return []
            raise PipelineError(
                f"{task.directory} is gone, and offsets from {wanted.start} to {wanted.end} "
                f"were to be read from it; {GO_ON}"
            )
        if fails:
            check_same_topic(log, planned.topic_id)
        elif not is_of_topic(log, planned.topic_id):
            return []
        log = reaching(disk.file_system, log, wanted.end)
        offsets = available(ReadableLog(log, None), wanted, fails_on_data_loss=fails)
        stretch = LogStretch(log, offsets, task.aborted)
        return list(planned_tasks(disk.file_system, stretch, SplitOptions()))
    except StorageError as error:
        raise refused_by_disk(error) from error


def _log_now(disk: Disk, task: SegmentTask) -> PartitionLog | None:
    """Return the present log in the partition's directory; None if that is gone."""
    directory = partition_directory(disk.file_system, task.directory)
    return find_log(disk, directory, is_live=disk.is_locked(directory.data_directory))


def _read(held: HeldSegment, task: SegmentTask, reading: SplitReading) -> Iterator[pa.RecordBatch]:
    rows = _headers if reading.is_batch_detail else record_batches
    left_out = 0
    while True:
        try:
            # The decoder does no more with a file system than to open the segment for reading.
            yield from rows(cast(FileSystem, held), task, reading.read)
        except (StorageError, DamagedBatchError) as error:
            left_out += 1
            task = _behind(error, task, reading)
            continue
        if left_out:
            _log.warning("Places left out of %s: %d", task.directory, left_out)
        return


def _behind(
    error: StorageError | DamagedBatchError, task: SegmentTask, reading: SplitReading
) -> SegmentTask:
    """Return the task after the damage; PipelineError if damage must not be skipped."""
    if isinstance(error, StorageError):
        raise refused_by_disk(error) from error
    if not reading.skips_damage:
        raise PipelineError(_sentence(error, task)) from error
    _log.warning("Left out: %s", error)
    return error.rest_of(task)


def _sentence(error: DamagedBatchError, task: SegmentTask) -> str:
    return (
        f"{error}; `kbroker log verify {task.directory}` shows all that is wrong; "
        "an archive leaves out what cannot be read with --allow-loss, Spark code with the option "
        "onDamage=skip"
    )


def _headers(
    file_system: FileSystem, task: SegmentTask, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """The batches whose last offset is in the task's range, so that each is in one range only."""
    columns = tuple(dict.fromkeys((*options.columns, _LAST_OFFSET)))
    for rows in header_batches(file_system, task, columns):
        last = rows.column(columns.index(_LAST_OFFSET)).to_numpy()
        wanted = rows.filter(pa.array((last >= task.start_offset) & (last < task.end_offset)))
        if wanted.num_rows:
            yield wanted.select(list(options.columns))
