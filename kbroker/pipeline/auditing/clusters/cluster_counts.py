"""Counts how many records a cluster serves in each window, by reading all of them through Spark's
Kafka source, and checks whether its logs hold as many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from kbroker.model import TopicPartition
from kbroker.pipeline.auditing.audit_finding import AuditFinding, Side
from kbroker.pipeline.auditing.audit_report import PartitionSides
from kbroker.pipeline.auditing.window_counts import WindowCount, Windows
from kbroker.pipeline.finding_codes import AuditCode
from kbroker.pipeline.sources.connector_or_exact import time_ms_of, worked_on
from kbroker.pipeline.spark_job import functions as f
from kbroker.pipeline.spark_job.offsets import OffsetRange
from kbroker.pipeline.spark_job.source import Source
from kbroker.pipeline.spark_job.stream_failure import is_of_spark, sentence_of_failure


def count_cluster(
    spark: Any, source: Source, ranges: Mapping[TopicPartition, OffsetRange], window_ms: int
) -> dict[TopicPartition, Windows]:
    """Count these records, aborted ones too, by partition and window. Raises PipelineError."""
    found: dict[TopicPartition, Windows] = {place: {} for place in ranges}
    if not ranges:
        return found
    for row in _rows(spark, source, ranges, window_ms):
        place = TopicPartition(row["topic"], row["partition"])
        is_timed = row["start"] >= 0
        found[place][row["start"]] = WindowCount(
            records=row["records"],
            min_timestamp_ms=row["low"] if is_timed else -1,
            max_timestamp_ms=row["high"] if is_timed else -1,
        )
    return {place: dict(sorted(windows.items())) for place, windows in found.items()}


def _rows(
    spark: Any, source: Source, ranges: Mapping[TopicPartition, OffsetRange], window_ms: int
) -> list[Any]:
    try:
        return worked_on(source, spark, ranges, partial(_counted, window_ms=window_ms))
    except Exception as error:
        if is_of_spark(error):
            raise sentence_of_failure(error) from error
        raise


def _counted(frame: Any, window_ms: int) -> list[Any]:
    time_ms = time_ms_of(frame)
    start = f.when(time_ms >= 0, time_ms - time_ms % window_ms).otherwise(f.lit(-1))
    rows: list[Any] = (
        frame.select("topic", "partition", time_ms.alias("ms"), start.alias("start"))
        .groupBy("topic", "partition", "start")
        .agg(f.count("*").alias("records"), f.min("ms").alias("low"), f.max("ms").alias("high"))
        .collect()
    )
    return rows


def check_counts(sides: PartitionSides) -> Iterator[AuditFinding]:
    """Compare the counts of a cluster with those of a log that has exactly its offsets."""
    if sides.cluster_windows is None:
        return
    for log in sides.logs:
        if log.range != sides.cluster:
            continue
        for start in sorted(log.windows.keys() | sides.cluster_windows.keys()):
            ours = log.windows.get(start, WindowCount()).records
            served = sides.cluster_windows.get(start, WindowCount()).records
            if ours != served:
                what = f"in the window from {start} the cluster serves {served} records, and "
                what += f"{log.path} has {ours}"
                place = sides.topic_partition
                finding = AuditCode.CLUSTER_COUNT.finding(str(place), what)
                yield AuditFinding(Side.CLUSTER, finding, place)
