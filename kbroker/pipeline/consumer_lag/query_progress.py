"""Progress that Spark reports of a streaming query, and what is committed for it. Values only, no
Spark.

Spark reports progress after a batch is finished and in its commit log, so the end offsets of a
report are those of finished work. Triggers without data are not reported; waiting queries are
reported as idle, without offsets.

Law: the last report of a group is due. Within a run a batch never ends before the one before it, so
offsets never go back; a query that starts over from an older checkpoint really goes back, and so
does its group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kbroker.model import TopicPartition
from kbroker.pipeline.spark_job.offsets import parse_offsets

_KAFKA_SOURCES = ("KafkaV2[", "KafkaV1[", "Kafka[")


@dataclass(frozen=True, slots=True)
class SourceReport:
    """A source in a progress report: Spark's name for it, and where the batch ended in it."""

    description: str
    end_offset: str | None  # as Spark writes it


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """Spark's report of progress of one query."""

    query_id: str
    query_name: str | None
    sources: tuple[SourceReport, ...]


def group_of(query_name: str | None, query_id: str) -> str:
    """Return the group that stands for a query. An id stays the same for a checkpoint."""
    return f"spark-{query_name or query_id}"


def end_offsets(report: ProgressReport) -> dict[TopicPartition, int]:
    """Return a batch's ends in all Kafka sources; the lowest if several read a partition."""
    ends: dict[TopicPartition, int] = {}
    for source in report.sources:
        if source.end_offset and source.description.startswith(_KAFKA_SOURCES):
            for partition, offset in parse_offsets(source.end_offset).items():
                ends[partition] = min(offset, ends.get(partition, offset))
    return ends


@dataclass(slots=True)
class DueCommits:
    """The offsets to commit, by group. Owned by one thread at a time."""

    query_names: Collection[str] | None = None  # None: of all queries
    _due: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    def report(self, report: ProgressReport) -> None:
        """Take in the end of a batch; raises ValueError if Spark's text is not understood."""
        if self.query_names is not None and report.query_name not in self.query_names:
            return
        ends = end_offsets(report)
        if ends:
            self._due.setdefault(group_of(report.query_name, report.query_id), {}).update(ends)

    def due(self) -> dict[str, dict[TopicPartition, int]]:
        """Return the offsets that are not committed yet, by group."""
        return {group: dict(offsets) for group, offsets in self._due.items()}

    def settled(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Mark offsets as committed, or as impossible to commit. Later reports stay due."""
        left = {
            partition: offset
            for partition, offset in self._due[group].items()
            if offsets.get(partition) != offset
        }
        if left:
            self._due[group] = left
        else:
            del self._due[group]
