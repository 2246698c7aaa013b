"""The Spark data source "kbroker-log": records, or batches, of log directories as rows.

    spark.read.format("kbroker-log").option("topics", "orders").load("/var/lib/kbroker")
    spark.readStream.format("kbroker-log").load("/var/lib/kbroker")

A directory may belong to a running broker, kbroker or Apache Kafka, to a stopped or to a killed
one; `partition_log` says how far each is read, `source_options` what can be asked for. Columns are
those of Spark's Kafka source and, by the option `columns` or a schema, all that the module
`columns` knows. detail=batch never unpacks a batch.

Sessions import this module when they look for data sources, whichever they want: what is needed to
read, numpy and pyarrow, is imported when somebody reads.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from kbroker.pipeline.logdir.planning.source_options import parse_options
from kbroker.pipeline.spark_job.pyspark_process import as_sentences, spare_process

NAME = "kbroker-log"


class KbrokerLogDataSource(DataSource):
    """The source as pyspark calls it, in processes of its own: one to plan, others to read."""

    @as_sentences()
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        spare_process()
        self._wanted = parse_options(options)

    @classmethod
    def name(cls) -> str:
        return NAME

    @as_sentences()
    def schema(self) -> str:
        from kbroker.pipeline.logdir.source.batch_reader import source_schema

        return source_schema(self._wanted)

    @as_sentences()
    def reader(self, schema: StructType) -> DataSourceReader:
        from kbroker.pipeline.logdir.source.batch_reader import batch_reader, with_columns

        spare_process()
        return batch_reader(with_columns(self._wanted, schema))

    @as_sentences()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - pyspark's
        from kbroker.pipeline.logdir.source.batch_reader import with_columns
        from kbroker.pipeline.logdir.source.stream_reader import stream_reader

        return stream_reader(with_columns(self._wanted, schema))


def register(spark: SparkSession) -> None:
    """Make `format("kbroker-log")` known to a session, if it did not find it by itself."""
    try:
        spark.dataSource.register(KbrokerLogDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
