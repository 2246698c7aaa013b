"""Archives a data directory with the parts of the archive job, but for Spark: one task after the
other, in this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.evidence.hole_reasons import holes_with_reasons
from kbroker.pipeline.archiving.evidence.log_evidence import LogWitness
from kbroker.pipeline.archiving.manifests.archive_writer import ArchiveStep, ArchiveWriter
from kbroker.pipeline.archiving.manifests.covered_ranges import bounded_holes
from kbroker.pipeline.archiving.manifests.manifest import HoleEntry, RangeEntry
from kbroker.pipeline.archiving.tasks.batch_facts import BatchFacts, joined_facts
from kbroker.pipeline.archiving.tasks.record_files import TaskOptions, write_records
from kbroker.pipeline.envelope import ARCHIVE_COLUMNS
from kbroker.pipeline.logdir.decode.record_columns import record_batches
from kbroker.pipeline.logdir.directory.log_catalog import LogCatalog, ReadableLog, Selection
from kbroker.pipeline.logdir.directory.partition_log import real_disk
from kbroker.pipeline.logdir.planning.splits import SplitOptions, planned_tasks, stretch_of
from kbroker.pipeline.logdir.segment_task import ReadOptions
from kbroker.pipeline.spark_job.offsets import OffsetRange, Ranges

JOB = "11111111-2222-4333-8444-555555555555"
HOLES_PER_BATCH = 256

Logs = Mapping[TopicPartition, ReadableLog]


def archive_directory(directory: str, archive: str, *, batches: int = 2) -> None:
    """Archive what is committed of all topics but internal ones, in so many batches."""
    logs = LogCatalog(real_disk(), [directory], Selection().wants).by_partition(is_committed=True)
    witness = LogWitness([directory])
    with ArchiveWriter(archive, JOB) as writer:
        for number, ranges in enumerate(_batches(logs, batches)):
            options = TaskOptions(staging=writer.staging_directory(number))
            facts = joined_facts(write_records(_records(logs, ranges), options, "0-0"), ranges)
            writer.publish(
                ArchiveStep(
                    kind="batch",
                    batch=number,
                    ranges=tuple(
                        RangeEntry(
                            topic=topic, partition=partition, start_offset=each.start,
                            end_offset=each.end,
                        )
                        for (topic, partition), each in sorted(ranges.items())
                    ),
                    holes=_holes(facts, witness),
                    files=tuple(facts.files),
                )
            )  # fmt: skip


def _batches(logs: Logs, count: int) -> Iterator[Ranges]:
    """Every log in so many parts."""
    at = {place: log.log.start_offset for place, log in logs.items()}
    for left in range(count, 0, -1):
        ends = {place: at[place] + (log.end_offset - at[place]) // left
                for place, log in logs.items()}  # fmt: skip
        yield {p: OffsetRange(at[p], end) for p, end in ends.items() if end > at[p]}
        at = ends


def _records(logs: Logs, ranges: Ranges) -> Iterator[Any]:
    file_system = real_disk().file_system
    for place, offsets in sorted(ranges.items()):
        stretch = stretch_of(file_system, logs[place], offsets)
        for planned in planned_tasks(file_system, stretch, SplitOptions()):
            yield from record_batches(
                file_system, planned.task, ReadOptions(columns=ARCHIVE_COLUMNS)
            )


def _holes(facts: BatchFacts, witness: LogWitness) -> tuple[HoleEntry, ...]:
    found: list[HoleEntry] = []
    for place, part in sorted(facts.partitions.items()):
        if part.missing:
            seen = witness.surroundings(place, part.missing)
            holes = holes_with_reasons(place, part.missing, seen)
            found += bounded_holes(holes, HOLES_PER_BATCH)
    return tuple(found)
