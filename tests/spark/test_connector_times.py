"""The times of Spark's Kafka connector are those that were written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kbroker.pipeline.sources.connector_times import with_written_times

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
LEAST = datetime(1, 1, 1, tzinfo=UTC)  # of .NET and of Python
SWITCH = datetime(1582, 10, 15, tzinfo=UTC)


def test_times_before_the_gregorian_calendar_are_those_that_were_written(spark: Any) -> None:
    moments = [LEAST + 36_525 * DAY * number / 10 for number in range(200)]
    moments += [SWITCH + DAY * days + timedelta(hours=7) for days in range(-12, 12)]
    times_ms = [(each - EPOCH) // timedelta(milliseconds=1) for each in moments]
    times_ms += [-9_000_000_000_000_000, -100_000_000_000_001, -1, 0, 1_795_266_000_000]

    java = spark._jvm
    to_micros = java.org.apache.spark.sql.catalyst.util.DateTimeUtils.fromJavaTimestamp
    read = [to_micros(java.java.sql.Timestamp(each)) for each in times_ms]
    frame = spark.createDataFrame(list(enumerate(read)), "number int, us bigint")
    frame = with_written_times(frame.selectExpr("number", "timestamp_micros(us) AS timestamp"))
    rows = frame.selectExpr("number", "unix_millis(timestamp) AS ms").collect()

    assert read[0] != times_ms[0] * 1_000
    assert [row["ms"] for row in sorted(rows)] == times_ms
