"""A range of each log, read once, as pyspark asks for it; and the columns of a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kbroker.pipeline.envelope import ARCHIVE_COLUMNS, RECORD_COLUMNS
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.logdir.columns import (
    HEADER_COLUMNS,
    LOG_COLUMNS,
    Column,
    header_columns,
    record_columns,
    spark_schema,
)
from kbroker.pipeline.logdir.directory.partition_log import real_disk
from kbroker.pipeline.logdir.planning.batch_query import BatchQuery
from kbroker.pipeline.logdir.planning.filter_pushdown import hints_of
from kbroker.pipeline.logdir.planning.source_options import SourceOptions, refuse_name
from kbroker.pipeline.logdir.source.log_split import LogSplit, log_splits, read_log_split
from kbroker.pipeline.spark_job.pyspark_process import as_sentences, is_pushing_filters


class LogBatchReader(DataSourceReader):
    """The planner calls `partitions`, the workers call `read`."""

    def __init__(self, wanted: SourceOptions) -> None:
        self._query = BatchQuery(wanted)

    @as_sentences()
    def partitions(self) -> list[LogSplit]:
        return log_splits(self._query.plan(real_disk()))

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        return read_log_split(self._query.reading, partition)


class PushingLogReader(LogBatchReader):
    """A reader that Spark gives the filters of the query."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - pyspark's name
        """Take hints from the filters; Spark applies all of them again."""
        self._query = self._query.narrowed(hints_of(filters))
        return filters


def batch_reader(wanted: SourceOptions) -> LogBatchReader:
    """The reader for this process.

    Spark refuses a reader that takes filters in a session that pushes none, so only the process
    that pushes gets one.
    """
    if not wanted.takes_filters:
        return LogBatchReader(wanted)
    return PushingLogReader(wanted) if is_pushing_filters() else LogBatchReader(wanted)


def source_schema(wanted: SourceOptions) -> str:
    """The columns asked for, else those of Spark's Kafka source or all of a batch."""
    return spark_schema(_columns(wanted, wanted.columns))


def with_columns(wanted: SourceOptions, schema: StructType) -> SourceOptions:
    """The options with the columns of the schema, which may be the user's own."""
    columns = _columns(wanted, schema.fieldNames())
    for column, given in zip(columns, schema.fields, strict=True):
        expected = column.spark_type.lower().replace(": ", ":").replace(", ", ",")
        if given.dataType.simpleString() != expected:
            raise PipelineError(
                f"kbroker-log: the column {column.name} is {column.spark_type}, "
                f"the schema says {given.dataType.simpleString()}",
                ExitCode.USAGE,
            )
    return replace(wanted, columns=tuple(column.name for column in columns))


def _columns(wanted: SourceOptions, names: Iterable[str] | None) -> tuple[Column, ...]:
    known = HEADER_COLUMNS if wanted.is_batch_detail else (*ARCHIVE_COLUMNS, *LOG_COLUMNS)
    chosen = tuple(names or (HEADER_COLUMNS if wanted.is_batch_detail else RECORD_COLUMNS))
    for name in chosen:
        if name not in known:
            refuse_name(name, known, "column")
    return header_columns(chosen) if wanted.is_batch_detail else record_columns(chosen)
