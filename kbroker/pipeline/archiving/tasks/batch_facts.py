"""Joins what the tasks of a batch reported: files to publish, rows and missing offsets. Pure.

Law: no fact is trusted alone. Parts of one partition must not overlap, all must be within the
ranges of the batch, and what is missing follows from offsets, not from counts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_writer import StagedFile
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch
from kbroker.pipeline.archiving.tasks.task_facts import Fact, FileFact, PartFact, TroubleFact
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.offsets import OffsetRange

_GAP = struct.Struct("=qq")


@dataclass(slots=True)
class PartitionFacts:
    """One partition's part in a batch."""

    rows: int = 0
    missing: list[Stretch] = field(default_factory=list)


@dataclass(slots=True)
class BatchFacts:
    """The facts of a whole batch."""

    files: list[StagedFile] = field(default_factory=list)
    partitions: dict[TopicPartition, PartitionFacts] = field(default_factory=dict)


def joined_facts(
    facts: Iterable[tuple[Fact, bytes]], ranges: Mapping[TopicPartition, OffsetRange]
) -> BatchFacts:
    """Join the facts of all tasks; PipelineError if one gave up or if two contradict each other."""
    batch = BatchFacts()
    parts: dict[TopicPartition, list[tuple[PartFact, bytes]]] = {}
    for fact, gaps in facts:
        if isinstance(fact, TroubleFact):
            raise PipelineError(fact.sentence)
        if isinstance(fact, FileFact):
            batch.files.append(StagedFile(fact.staged_path, fact.entry))
        else:
            partition = TopicPartition(fact.topic, fact.partition)
            parts.setdefault(partition, []).append((fact, gaps))
    for partition in parts.keys() - ranges.keys():
        raise PipelineError(
            f"the source gave records of {partition}, which is not in this batch: nothing of it "
            "was published"
        )
    for partition, within in ranges.items():
        batch.partitions[partition] = _partition(partition, within, parts.get(partition, []))
    return batch


def _partition(
    partition: TopicPartition, within: OffsetRange, parts: list[tuple[PartFact, bytes]]
) -> PartitionFacts:
    found = PartitionFacts()
    at = within.start
    for fact, gaps in sorted(parts, key=lambda part: part[0].first_offset):
        if fact.first_offset < at or fact.last_offset >= within.end:
            raise PipelineError(
                f"the source gave offsets {fact.first_offset} to {fact.last_offset} of "
                f"{partition}, and {at} to {within.end - 1} were due: nothing of the batch was "
                "published"
            )
        if fact.first_offset > at:
            found.missing.append(Stretch(at, fact.first_offset))
        found.missing += [Stretch(start, end) for start, end in _GAP.iter_unpack(gaps)]
        found.rows += fact.rows
        at = fact.last_offset + 1
    if at < within.end:
        found.missing.append(Stretch(at, within.end))
    return found
