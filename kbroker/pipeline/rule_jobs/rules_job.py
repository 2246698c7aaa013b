"""The work of a job of rules on one batch: sort rows, close windows, keep state, write out.

A batch that is run again after a crash finds its step in the journal, or makes it from the step
before; an existing step is written out unless it was already. The offsets in the state, not the
batch's number, show what of a batch is new.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kbroker.errors import Trouble
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.rule_jobs.lookup_tables import LookupTables
from kbroker.pipeline.rule_jobs.partitions_look import PartitionsLook
from kbroker.pipeline.rule_jobs.rule_spec import RulesSpec
from kbroker.pipeline.rule_jobs.step_journal import BEGINNING, RulesStep, StepJournal
from kbroker.pipeline.rule_jobs.step_making import StepMaking
from kbroker.pipeline.rule_jobs.step_writer import StepWriter
from kbroker.pipeline.sources.connector_or_exact import is_beyond_connector
from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.spark_job import functions as f
from kbroker.pipeline.spark_job.batch import Batch, BatchResult
from kbroker.pipeline.spark_job.offsets import OffsetRange, Ranges
from kbroker.pipeline.spark_job.stream_failure import is_of_spark, sentence_of_failure


class RulesJob:
    """Work for a StreamJob. Owned by the thread of the batches.

    `look` takes the offsets up to which partitions were read and returns which have more; None if
    that is not known.
    """

    def __init__(
        self,
        spec: RulesSpec,
        source: KafkaSource,
        checkpoint: str | Path,
        tables: LookupTables,
        look: Callable[[Mapping[str, int]], PartitionsLook | None],
    ) -> None:
        self.counts: Counter[str] = Counter()  # rows of this run: accepted, late, broken, doubled
        self.written: Counter[str] = Counter()  # records of this run, by topic
        self.journal = StepJournal(checkpoint)
        self._spec = spec
        self._source = source
        self._is_exact = False  # the connector has failed at a record: more such records will come
        self._tables = tables
        self._look = look
        self._writer: StepWriter | None = None

    def check_shape(self) -> None:
        """Raise PipelineError if the rules are not those that the state was made by."""
        latest = self.journal.latest()
        before, now = latest.shape, self._spec.shape()
        other = [name for name in {**before, **now} if now.get(name) != before.get(name)]
        if latest is not BEGINNING and other:
            raise PipelineError(
                f"[{other[0]}] is not what it was when the state in {self.journal.directory} was "
                "made: what a rule reads, its window and what it keeps by key have to stay (where, "
                "having, sql and to may change); begin with a new --checkpoint",
                trouble=Trouble.CHECKPOINT,
            )

    def work(self, batch: Batch) -> BatchResult:
        """Take in what is new in a batch, and write its results out."""
        latest = self.journal.latest()
        if latest.batch < batch.number - 1:
            raise PipelineError(
                f"the checkpoint is at batch {batch.number}, and the state of the rules in "
                f"{self.journal.directory} at {latest.batch}: restore the checkpoint from a copy, "
                "or begin with a new --checkpoint"
            )
        rest = self._rest_of(batch, latest)
        self._settle(batch.job_id, latest, is_new=False)
        if rest is None:
            return BatchResult(rows=0, notes=(f"batch {batch.number} was done before",))
        with _one_sentence():
            step, making = self._made(batch, rest, latest)
        self._publish(batch.job_id, step)
        self.counts += making.counts
        return BatchResult(
            rows=sum(making.counts[name] for name in ("accepted", "late", "broken", "doubled")),
            rows_by_partition=making.rows_by_partition,
            notes=tuple(making.notes),
        )

    def _made(self, batch: Batch, rest: Ranges, latest: RulesStep) -> tuple[RulesStep, StepMaking]:
        """Return the next step, and what was counted as it was made."""
        frame, spark = _left(batch, rest), batch.frame.sparkSession
        if not self._is_exact:
            try:
                return self._made_of(frame, batch, latest)
            except Exception as error:
                if not is_beyond_connector(error):
                    raise
            self._is_exact = True
        return self._made_of(self._source.exact_batch(spark, rest), batch, latest)

    def _made_of(self, frame: Any, batch: Batch, latest: RulesStep) -> tuple[RulesStep, StepMaking]:
        making = self._making(batch.frame.sparkSession, latest)
        ends = dict(making.ends)
        for partition, within in batch.ranges.items():
            ends[str(partition)] = max(within.end, ends.get(str(partition), 0))
        number = max(batch.number, latest.batch)
        return making.of_batch(frame, number, ends, self._look(ends)), making

    def _rest_of(self, batch: Batch, latest: RulesStep) -> Ranges | None:
        """Return the records of a batch that the state has not taken in; None if it has them all.

        Spark does not sync its notes of batches: after a power loss they may be older than the
        state, as they are in a copy that was made while the job ran. It then plans other batches of
        the same numbers, which begin before the end of the state or go beyond it. Raises
        PipelineError if records are missing between the state and the batch.
        """
        ends = {
            each: latest.ends.get(str(each), within.start) for each, within in batch.ranges.items()
        }
        for partition, within in batch.ranges.items():
            if within.start > ends[partition]:
                raise PipelineError(
                    f"batch {batch.number} of the checkpoint reads {partition} from offset "
                    f"{within.start} on, and the state of the rules in {self.journal.directory} "
                    f"ends at {ends[partition]}: it is older; restore all of the checkpoint from a "
                    "copy, or begin with a new --checkpoint",
                    trouble=Trouble.CHECKPOINT,
                )
        is_known = latest.batch >= batch.number
        if is_known and all(within.end <= ends[each] for each, within in batch.ranges.items()):
            return None
        return {
            each: OffsetRange(max(within.start, ends[each]), within.end)
            for each, within in batch.ranges.items()
        }

    def close_windows(self, spark: Any, job_id: str) -> None:
        """End all windows that are open, as a step of its own."""
        latest = self.journal.latest()
        if latest is BEGINNING:
            return
        self._settle(job_id, latest, is_new=False)
        making = self._making(spark, latest)
        with _one_sentence():
            step = making.of_closing()
        self._publish(job_id, step)

    def _making(self, spark: Any, latest: RulesStep) -> StepMaking:
        notes = self._tables.views(spark)
        now_us = time.time_ns() // 1_000
        return StepMaking(self._spec, spark, self.journal, latest, notes, now_us)

    def _publish(self, job_id: str, step: RulesStep) -> None:
        self.journal.publish(step)
        self._settle(job_id, step, is_new=True)

    def _settle(self, job_id: str, step: RulesStep, *, is_new: bool) -> None:
        """See that a step is written out; a new one was just made, after what was before it."""
        if not self.journal.is_written(step.number):
            path = self.journal.path(step.number)
            if any(path.glob("outputs/*/*.parquet")):
                self.written += self._writer_of(job_id).write(step, path, is_new=is_new)
            self.journal.note_written(step.number)
        self.journal.prune(step)

    def _writer_of(self, job_id: str) -> StepWriter:
        if self._writer is None:
            group = f"kbroker-rules-{self._spec.name}-{job_id}"
            place = TopicPartition(self._spec.place_topic(), 0)
            self._writer = StepWriter(self._source.cluster, group, place)
        return self._writer


def _left(batch: Batch, rest: Ranges) -> Any:
    """Return the frame of a batch without records outside of these ranges."""
    frame = batch.frame
    for partition, within in batch.ranges.items():
        if within.start < rest[partition].start:
            frame = records_from(frame, partition, rest[partition].start)
    return frame


def records_from(frame: Any, partition: TopicPartition, start_offset: int) -> Any:
    """Return the records of a frame, without those of a partition before an offset."""
    is_there = (f.col("topic") == partition.topic) & (f.col("partition") == partition.partition)
    return frame.filter(~(is_there & (f.col("offset") < start_offset)))


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Report a failure of Spark in one sentence."""
    try:
        yield
    except Exception as error:
        if not is_of_spark(error):
            raise
        raise sentence_of_failure(error) from error
