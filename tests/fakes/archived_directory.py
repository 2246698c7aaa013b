"""Archives a data directory with the archive job itself; only Spark's part is played here: one task
after the other, in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kbroker.model import TopicPartition
from kbroker.pipeline.archive.archive_job import ArchiveJob, ArchiveOptions
from kbroker.pipeline.archive.archive_writer import ArchiveWriter
from kbroker.pipeline.archive.log_witness import LogWitness
from kbroker.pipeline.envelope import RECORD_COLUMNS
from kbroker.pipeline.frame.batch import Batch
from kbroker.pipeline.frame.offsets import OffsetRange
from kbroker.pipeline.logdir.log_catalog import LogCatalog, ReadableLog, Selection
from kbroker.pipeline.logdir.partition_log import real_disk
from kbroker.pipeline.logdir.planning import SplitOptions, planned_tasks, stretch_of
from kbroker.pipeline.logdir.record_columns import record_batches
from kbroker.pipeline.logdir.segment_task import ReadOptions

JOB = "11111111-2222-4333-8444-555555555555"
_OPTIONS = ReadOptions(columns=RECORD_COLUMNS)

Ranges = Mapping[TopicPartition, OffsetRange]


class LogFrame:
    """Records of some ranges of a data directory, as a frame that knows `mapInArrow` alone."""

    def __init__(self, logs: Mapping[TopicPartition, ReadableLog], ranges: Ranges) -> None:
        self._logs = logs
        self._ranges = ranges
        self._run: Callable[[Iterator[Any]], Iterator[Any]] | None = None

    def mapInArrow(  # noqa: N802 - Spark's name
        self, function: Callable[[Iterator[Any]], Iterator[Any]], _schema: str
    ) -> LogFrame:
        frame = LogFrame(self._logs, self._ranges)
        frame._run = function
        return frame

    def collect(self) -> list[dict[str, Any]]:
        assert self._run is not None
        return [row for batch in self._run(self._batches()) for row in batch.to_pylist()]

    def _batches(self) -> Iterator[Any]:
        file_system = real_disk().file_system
        for partition, offsets in sorted(self._ranges.items()):
            stretch = stretch_of(file_system, self._logs[partition], offsets)
            for planned in planned_tasks(file_system, stretch, SplitOptions()):
                yield from record_batches(file_system, planned.task, _OPTIONS)


def archive_directory(directory: str, archive: str, *, batches: int = 2, job: str = JOB) -> None:
    """Archive all topics but internal ones, in so many batches."""
    disk = real_disk()
    catalog = LogCatalog(disk, [directory], Selection().wants)
    logs = catalog.by_partition(is_committed=True)
    work = ArchiveJob(
        lambda job_id: ArchiveWriter(archive, job_id), LogWitness([directory]), ArchiveOptions()
    )
    starts = {place: log.log.start_offset for place, log in logs.items()}
    for number in range(batches):
        left = batches - number
        ends = {
            place: log.end_offset if left == 1
            else starts[place] + (log.end_offset - starts[place]) // left
            for place, log in logs.items()
        }  # fmt: skip
        ranges = {
            place: OffsetRange(starts[place], end)
            for place, end in ends.items()
            if end > starts[place]
        }
        frame = LogFrame(logs, ranges)
        work.work(Batch(number=number, job_id=job, frame=frame, ranges=ranges))
        starts = ends
    work.close()
