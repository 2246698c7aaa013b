"""The Spark data source "kbroker-log": records, or batches, of log directories as rows.

    spark.read.format("kbroker-log").option("topics", "orders").load("/var/lib/kbroker")
    spark.readStream.format("kbroker-log").load("/var/lib/kbroker")

A directory may belong to a running broker, kbroker or Apache Kafka, to a stopped or to a killed
one; `partition_log` says how far each is read, `source_options` what can be asked for. Columns are
those of Spark's Kafka source and, by the option `columns` or a schema, all that the module
`columns` knows. detail=batch never unpacks a batch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kbroker.pipeline.envelope import RECORD_COLUMNS
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.logdir.batch_query import BatchQuery
from kbroker.pipeline.logdir.columns import (
    HEADER_COLUMNS,
    LOG_COLUMNS,
    Column,
    header_columns,
    record_columns,
    spark_schema,
)
from kbroker.pipeline.logdir.filter_pushdown import hints_of
from kbroker.pipeline.logdir.log_split import LogSplit, log_splits, read_log_split
from kbroker.pipeline.logdir.partition_log import real_disk
from kbroker.pipeline.logdir.source_options import SourceOptions, parse_options, refuse_name
from kbroker.pipeline.logdir.stream_reader import stream_reader

NAME = "kbroker-log"
_PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class KbrokerLogDataSource(DataSource):
    """What pyspark calls, in processes of its own: one to plan, others to read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._wanted = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return NAME

    def schema(self) -> str:
        """The columns asked for, else those of Spark's Kafka source or all of a batch."""
        return spark_schema(_columns(self._wanted, self._wanted.columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        return _reader_type()(_checked(self._wanted, schema))

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - pyspark's name
        """For `spark.readStream`."""
        return stream_reader(_checked(self._wanted, schema))


class LogReader(DataSourceReader):
    """Reads a range of each log once."""

    def __init__(self, wanted: SourceOptions) -> None:
        self._query = BatchQuery(wanted)

    def partitions(self) -> list[LogSplit]:
        """What the tasks read; decided once, here."""
        return log_splits(self._query.plan(real_disk()))

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """Arrow record batches."""
        return read_log_split(self._query.reading, partition)


class PushingLogReader(LogReader):
    """Is told the filters, too."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - pyspark's name
        """Take hints from the filters; Spark applies all of them again."""
        self._query = self._query.narrowed(hints_of(filters))
        return filters


def register(spark: Any) -> None:
    """Make `format("kbroker-log")` known to a session, if it did not find it by itself."""
    try:
        spark.dataSource.register(KbrokerLogDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _reader_type() -> type[LogReader]:
    """The type for this process: pyspark refuses a reader that can be pushed filters in a
    session that pushes none, so it is only had in the process that pushes.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    is_pushing = _PUSHING_WORKER in sys.modules or getattr(main, "name", "") == _PUSHING_WORKER
    return PushingLogReader if is_pushing else LogReader


def _columns(wanted: SourceOptions, names: Iterable[str] | None) -> tuple[Column, ...]:
    known = HEADER_COLUMNS if wanted.is_batch_detail else (*RECORD_COLUMNS, *LOG_COLUMNS)
    chosen = tuple(names or (HEADER_COLUMNS if wanted.is_batch_detail else RECORD_COLUMNS))
    for name in chosen:
        if name not in known:
            refuse_name(name, known, "column")
    return header_columns(chosen) if wanted.is_batch_detail else record_columns(chosen)


def _checked(wanted: SourceOptions, schema: StructType) -> SourceOptions:
    """The options with the columns of the schema, which may be a person's own."""
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
