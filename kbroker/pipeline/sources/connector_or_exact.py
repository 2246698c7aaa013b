"""Work on the records of a source by Spark's Kafka connector, and by exact reading if the connector
fails.

The connector is the faster way, but some records end it with an error each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.spark_job import functions as f
from kbroker.pipeline.spark_job.offsets import Ranges
from kbroker.pipeline.spark_job.source import Source

_BEYOND_CONNECTOR: Final = re.compile(
    r"ArithmeticException: long overflow|exception when fetching the next record"
)
ResultT = TypeVar("ResultT")


def is_beyond_connector(error: Exception) -> bool:
    """Return whether a failure of Spark is one that `KafkaSource.exact_batch` does not have."""
    return _BEYOND_CONNECTOR.search(str(error)) is not None


def worked_on(
    source: Source, spark: Any, ranges: Ranges, work: Callable[[Any], ResultT]
) -> ResultT:
    """Return the result of `work` on a frame of these ranges; `work` may be called twice."""
    try:
        return work(source.batch(spark, ranges))
    except Exception as error:
        if not (isinstance(source, KafkaSource) and is_beyond_connector(error)):
            raise
        return work(source.exact_batch(spark, ranges))


def time_ms_of(frame: Any) -> Any:
    """Return the column of the records' times in Unix ms; `frame` may be of any source."""
    time_ms = f.unix_millis(f.col("timestamp"))
    return f.coalesce("timestampMs", time_ms) if "timestampMs" in frame.columns else time_ms
