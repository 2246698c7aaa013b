"""Gives the tasks of a batch their records: from Spark's frame, or directly from log directories.

Records of a topic come out of the JVM, a few hundred at a time. Segments are decoded in Python;
through Spark's data source they would go into the JVM and out again, so tasks over directories read
them directly, unless Spark has to parse a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from kbroker.pipeline.archiving.tasks.json_columns import with_json
from kbroker.pipeline.archiving.tasks.record_files import TaskOptions, write_records
from kbroker.pipeline.archiving.tasks.task_facts import FACT_SCHEMA, Fact
from kbroker.pipeline.logdir.directory.partition_log import real_disk
from kbroker.pipeline.logdir.planning.split_reading import SplitReading, read_split
from kbroker.pipeline.logdir.planning.splits import PlannedTask
from kbroker.pipeline.sources.log_directory_source import LogDirectorySource
from kbroker.pipeline.spark_job.offsets import Ranges
from kbroker.pipeline.spark_job.pyspark_process import spare_process

# Spark counts rows on their way to Python, not bytes: ten thousand of 1 MB would be 10 GB at once.
_ROWS_AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch"
_SPARKS_ROWS_AT_ONCE, _OUR_ROWS_AT_ONCE = "10000", "512"

FactRow = tuple[str, bytes]  # a fact as text, and gaps


def run_on_frame(frame: Any, staging: str, schemas: Mapping[str, str]) -> list[FactRow]:
    """Write the records of a frame; return what the tasks reported."""
    conf = frame.sparkSession.conf  # the query's own
    if conf.get(_ROWS_AT_ONCE) == _SPARKS_ROWS_AT_ONCE:
        conf.set(_ROWS_AT_ONCE, _OUR_ROWS_AT_ONCE)
    prepared, columns = with_json(frame, schemas)
    options = TaskOptions(staging=staging, json_columns=columns)
    rows = prepared.mapInArrow(_write_batches(options), FACT_SCHEMA).collect()
    return [(row["fact"], bytes(row["gaps"])) for row in rows]


def run_on_directories(
    spark: Any, source: LogDirectorySource, ranges: Ranges, staging: str
) -> list[FactRow]:
    """Write the records of these ranges; return what the tasks reported."""
    reading, splits = source.splits(ranges)
    if not splits:
        return []
    task = _SplitsTask(reading, TaskOptions(staging=staging))
    rows: list[FactRow] = (
        spark.sparkContext.parallelize(splits, len(splits)).mapPartitions(task).collect()
    )
    return rows


@dataclass(frozen=True, slots=True)
class _SplitsTask:
    """Reads and writes splits, in the process of a worker."""

    reading: SplitReading
    options: TaskOptions

    def __call__(self, splits: Iterable[tuple[PlannedTask, ...]]) -> Iterator[FactRow]:
        spare_process()
        disk = real_disk()
        batches = (batch for tasks in splits for batch in read_split(disk, tasks, self.reading))
        for fact, gaps in write_records(batches, self.options, _attempt()):
            yield _text(fact), gaps


def _write_batches(options: TaskOptions) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function for `mapInArrow`: batches of records in, one of facts out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_process()
        yield facts_batch(write_records(batches, options, _attempt()))

    return run


def facts_batch(facts: list[tuple[Fact, bytes]]) -> pa.RecordBatch:
    """Return facts as rows of `FACT_SCHEMA`."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([_text(fact) for fact, _ in facts], pa.string()),
            pa.array([gaps for _, gaps in facts], pa.binary()),
        ],
        names=["fact", "gaps"],
    )


def _text(fact: Fact) -> str:
    return msgspec.json.encode(fact).decode()


def _attempt() -> str:
    """Return a new name for each task and each of its attempts."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "not in a task"
    return f"{context.partitionId()}-{context.taskAttemptId()}"
