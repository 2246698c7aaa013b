"""The work of the archive job on one batch: write, explain what is missing, publish.

Spark runs a batch again after a crash, with the same number and ranges. A batch with a manifest is
done and not read again; a batch without one is written again, over nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

from kbroker.errors import Trouble
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.evidence.hole_reasons import HoleWitness, holes_with_reasons
from kbroker.pipeline.archiving.evidence.same_source import (
    BatchEpochs,
    SourceIdentity,
    kept_sentence,
)
from kbroker.pipeline.archiving.kept_groups import KeptGroups, ask_groups
from kbroker.pipeline.archiving.manifests.archive_state import missing_by_reason
from kbroker.pipeline.archiving.manifests.archive_writer import ArchiveStep, ArchiveWriter
from kbroker.pipeline.archiving.manifests.covered_ranges import bounded_holes
from kbroker.pipeline.archiving.manifests.manifest import (
    RETENTION,
    UNEXPLAINED,
    UNREADABLE,
    EpochNote,
    HoleEntry,
    RangeEntry,
)
from kbroker.pipeline.archiving.tasks.batch_facts import BatchFacts, joined_facts
from kbroker.pipeline.archiving.tasks.batch_tasks import BatchTasks
from kbroker.pipeline.archiving.tasks.json_columns import JsonSchemas, parse_schemas
from kbroker.pipeline.archiving.topic_settings import ToldTopics, TopicSettings, ask_cluster
from kbroker.pipeline.cluster_errors import while_reachable
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.batch import Batch, BatchResult
from kbroker.pipeline.spark_job.offsets import OffsetRange

_HOLES_PER_BATCH = 256  # of a partition: so many are noted with their places
_NOTED = (RETENTION, UNREADABLE, UNEXPLAINED)  # losses, which are reported to a person


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """The choices of a person."""

    # What retention took at the source, or cannot be read, is noted, and the job goes on.
    allows_loss: bool = False
    # Topic (None: all others) -> schema of its values, as DDL or Spark's JSON.
    schema_texts: Mapping[str | None, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAnswers:
    """The questions that brokers answer about topics beside their records."""

    settings: TopicSettings = field(default_factory=lambda: TopicSettings(lambda _: ToldTopics()))
    groups: KeptGroups | None = None

    @classmethod
    def of(cls, bootstrap: str) -> ClusterAnswers:
        return cls(
            settings=TopicSettings(partial(ask_cluster, bootstrap)),
            groups=KeptGroups(partial(ask_groups, bootstrap)),
        )


class ArchiveJob:
    """Work for a StreamJob. Owned by the thread of the batches; `close` ends it."""

    def __init__(
        self,
        open_writer: Callable[[str], ArchiveWriter],
        witness: HoleWitness,
        identity: SourceIdentity,
        options: ArchiveOptions,
        *,
        cluster: ClusterAnswers | None = None,  # if the source is a cluster
        tasks: BatchTasks | None = None,
    ) -> None:
        self.missing: Counter[str] = Counter()  # offsets by reason, of this run
        self.files = 0
        self.rejected = 0
        self._open_writer = open_writer
        self._witness = witness
        self._options = options
        self._tasks = tasks or BatchTasks()
        self._identity = identity
        self._cluster_answers = cluster or ClusterAnswers()
        self._cluster_id: str | None = None
        self._writer: ArchiveWriter | None = None
        self._schemas: JsonSchemas | None = None

    def close(self) -> None:
        """Let another run have the archive."""
        if self._writer is not None:
            self._writer.close()

    def keep_groups(self) -> list[str]:
        """Keep how far groups are by now, after the last batch; return sentences about what is
        unknown.

        Raises PipelineError.
        """
        groups = self._cluster_answers.groups
        if groups is None:
            return []
        if self._writer is None:  # nothing was new, but groups may have read on
            self._writer = self._open_writer(uuid4().hex)
        return groups.keep(self._writer)

    def work(self, batch: Batch) -> BatchResult:
        """Archive one batch, unless its manifest is there already."""
        writer = self._writer or self._open_writer(batch.job_id)
        self._writer = writer
        ranges = tuple(_range_entry(*each) for each in sorted(batch.ranges.items()))
        topics = sorted({entry.topic for entry in ranges})
        topic_ids = {name: batch.topic_ids[name] for name in topics if name in batch.topic_ids}
        cluster_ids = dict.fromkeys(topics, cluster_id) if (cluster_id := self._cluster()) else {}
        writer.state.refuse_other_topics(topic_ids)
        writer.state.refuse_other_cluster(topics, topic_ids, cluster_id)
        if writer.is_done(batch.number, ranges):
            return BatchResult(rows=0, notes=(f"batch {batch.number} was archived before",))
        self._check_continues(writer, batch)
        if self._schemas is None:
            self._schemas = parse_schemas(self._options.schema_texts)
        schemas = self._schemas.checked(topics, writer.state.json_schemas)
        facts, holes, leader_epochs = self._staged(writer, batch, schemas)
        told = self._cluster_answers.settings.told(topics)
        writer.publish(
            ArchiveStep(
                kind="batch",
                batch=batch.number,
                ranges=ranges,
                holes=holes,
                files=tuple(facts.files),
                json_schemas=schemas,
                topic_ids=topic_ids,
                cluster_ids=cluster_ids,
                leader_epochs=leader_epochs,
                topic_settings=told.settings,
                partition_counts=told.partition_counts,
            )
        )
        self.missing += missing_by_reason(holes)
        self.files += len(facts.files)
        kept = [kept_sentence(each) for each in leader_epochs if each.replaced_from >= 0]
        notes = [*kept, *self._cluster_answers.settings.notes(told.refusals)]
        if self._cluster_answers.groups is not None:
            notes += self._cluster_answers.groups.keep_if_due(writer)
        return self._result(facts, holes, notes)

    def _staged(
        self, writer: ArchiveWriter, batch: Batch, schemas: Mapping[str, str]
    ) -> tuple[BatchFacts, tuple[HoleEntry, ...], tuple[EpochNote, ...]]:
        """Return files that are ready to be published, with their holes and epochs."""
        epochs = BatchEpochs.of(self._identity, writer.state, batch.ranges)
        try:
            new_staging = partial(writer.staging_directory, batch.number)
            facts = joined_facts(self._tasks.run(batch, schemas, new_staging), batch.ranges)
            holes = self._explained(facts)
            allows_loss = self._options.allows_loss
            leader_epochs = epochs.held_against_source(batch.ranges, allows_loss=allows_loss)
            batch.check_topics()
            return facts, holes, leader_epochs
        except BaseException:
            writer.give_up(batch.number)
            raise

    def _cluster(self) -> str | None:
        """Return the cluster's id, asked for until it is known."""
        if self._cluster_id is None:
            self._cluster_id = while_reachable(self._identity.cluster_id, None)
        return self._cluster_id

    def _check_continues(self, writer: ArchiveWriter, batch: Batch) -> None:
        """Check that each range begins where the archive ends: a gap would be lost unnoticed."""
        following = writer.state.jobs.get(batch.job_id, -1) + 1
        if batch.number > following:
            raise PipelineError(
                f"the checkpoint is at batch {batch.number}, and the archive {writer.path} has "
                f"{following} batches of this job: give the archive that belongs to the "
                f"checkpoint, or begin with a new --checkpoint, which continues where the archive "
                f"ends"
            )
        for partition, within in sorted(batch.ranges.items()):
            end_offset = writer.state.end_offset(partition)
            if end_offset is not None and end_offset < within.start:
                raise PipelineError(
                    f"the archive {writer.path} ends at offset {end_offset} of {partition}, and "
                    f"this batch begins at {within.start}: begin with a new --checkpoint, which "
                    "continues where the archive ends"
                )

    def _explained(self, facts: BatchFacts) -> tuple[HoleEntry, ...]:
        found: list[HoleEntry] = []
        for partition, part in sorted(facts.partitions.items()):
            if not part.missing:
                continue
            seen = self._witness.surroundings(partition, part.missing)
            holes = holes_with_reasons(partition, part.missing, seen)
            self._refuse_loss(partition, holes)
            found += bounded_holes(holes, _HOLES_PER_BATCH)
        return tuple(found)

    def _refuse_loss(self, partition: TopicPartition, holes: Iterable[HoleEntry]) -> None:
        if self._options.allows_loss:
            return
        left = [hole for hole in holes if hole.reason == UNREADABLE]
        if left:
            raise PipelineError(
                f"{partition} holds records between offsets {left[0].first_offset} and "
                f"{left[-1].last_offset} that the source did not give: nothing of the batch was "
                "published; run again, and if it happens again, run `kbroker log verify`; "
                "--allow-loss notes them as unreadable and continues"
            )
        lost = [hole for hole in holes if hole.reason == RETENTION]
        if lost:
            raise PipelineError(
                loss_sentence(partition, lost[0].first_offset, lost[-1].last_offset),
                trouble=Trouble.ARCHIVE,
            )

    def _result(
        self, facts: BatchFacts, holes: Iterable[HoleEntry], more_notes: Iterable[str]
    ) -> BatchResult:
        rejected = sum(f.entry.rows for f in facts.files if f.entry.kind == "rejected")
        self.rejected += rejected
        notes = [hole_note(hole) for hole in holes if hole.reason in _NOTED]
        notes += more_notes
        if rejected:
            notes.append(f"{rejected} values did not parse; see the files below rejected/")
        return BatchResult(
            rows=sum(part.rows for part in facts.partitions.values()),
            size_bytes=sum(file.entry.size_bytes for file in facts.files),
            rows_by_partition={tp: part.rows for tp, part in facts.partitions.items()},
            notes=tuple(notes),
        )


def loss_sentence(partition: TopicPartition, first_offset: int, last_offset: int) -> str:
    """Return the sentence for retention that was faster than the archive."""
    return (
        f"offsets {first_offset} to {last_offset} of {partition} were deleted at the source before "
        "they were archived: --allow-loss notes them as lost and continues"
    )


def hole_note(hole: HoleEntry) -> str:
    """Describe a hole to a person."""
    return (
        f"{hole.topic_partition}: {hole.missing} of the offsets {hole.first_offset} to "
        f"{hole.last_offset} are missing: {hole.reason}"
    )


def _range_entry(partition: TopicPartition, within: OffsetRange) -> RangeEntry:
    return RangeEntry(
        topic=partition.topic,
        partition=partition.partition,
        start_offset=within.start,
        end_offset=within.end,
    )
