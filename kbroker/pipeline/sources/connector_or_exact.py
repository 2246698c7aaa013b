"""Work on records of a source by Spark's Kafka connector, and exactly where the connector fails.

The connector is the shorter way, and there are records at which it ends with an error, each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.spark_job.offsets import Ranges
from kbroker.pipeline.spark_job.source import Source

_BEYOND_CONNECTOR: Final = re.compile(
    r"ArithmeticException: long overflow|exception when fetching the next record"
)
ResultT = TypeVar("ResultT")


def is_beyond_connector(error: Exception) -> bool:
    """Whether a failure of Spark is one that `KafkaSource.exact_batch` has not."""
    return _BEYOND_CONNECTOR.search(str(error)) is not None


def worked(source: Source, spark: Any, ranges: Ranges, work: Callable[[Any], ResultT]) -> ResultT:
    """Return what `work` makes of a frame of these ranges; it may be called twice."""
    try:
        return work(source.batch(spark, ranges))
    except Exception as error:
        if not (isinstance(source, KafkaSource) and is_beyond_connector(error)):
            raise
        return work(source.exact_batch(spark, ranges))


def time_ms_of(frame: Any) -> Any:
    """The column of the times of its records, in Unix ms; `frame` is one of any source."""
    from pyspark.sql import functions as F  # noqa: N812

    time_ms = F.unix_millis(F.col("timestamp"))
    return F.coalesce("timestampMs", time_ms) if "timestampMs" in frame.columns else time_ms
