"""Reads a cluster's records exactly as they are, without Spark's Kafka connector.

The connector fails at a time beyond the range of a TIMESTAMP and at a batch whose records it cannot
unpack, and gives the names of headers as text, whatever their bytes are. This reads record by
record in Python, one task per partition, so a job uses it only for what the connector cannot read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.fetched_batches import FetchedBatch, record_lists
from kbroker.client.record_fetcher import Course, RecordFetcher
from kbroker.errors import KafkaError
from kbroker.model import NO_TIMESTAMP, TopicPartition
from kbroker.pipeline.cluster_errors import cluster_errors
from kbroker.pipeline.envelope import ARCHIVE_COLUMNS, ARCHIVE_SCHEMA
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.columns import arrow_schema, record_columns
from kbroker.pipeline.logdir.exact_columns import (
    header_columns_of,
    timestamps,
    timestamps_ms,
)
from kbroker.pipeline.spark_job.offsets import OffsetRange, Ranges
from kbroker.record.default_record import Record, in_64_bits

_SCHEMA: Final = arrow_schema(record_columns(ARCHIVE_COLUMNS))
_PLACES_DDL: Final = "topic STRING, partition INT, start BIGINT, end BIGINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactReading:
    """How every task reads. `leaves_out` skips unreadable records; else they end the job."""

    bootstrap: str  # with the settings of the connection
    only_committed: bool
    leaves_out: bool


def exact_frame(spark: Any, reading: ExactReading, ranges: Ranges) -> Any:
    """Return a frame of these ranges with `envelope.ARCHIVE_COLUMNS`; one task per partition."""
    places = [(*place, each.start, each.end) for place, each in sorted(ranges.items())]
    listed = spark.sparkContext.parallelize(places, max(len(places), 1))
    frame = spark.createDataFrame(listed, _PLACES_DDL)
    return frame.mapInArrow(_read_places(reading), ARCHIVE_SCHEMA)


def _read_places(reading: ExactReading) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function for `mapInArrow`: batches of places in, batches of records out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                place = TopicPartition(row["topic"], row["partition"])
                yield from exact_rows(reading, place, OffsetRange(row["start"], row["end"]))

    return run


def exact_rows(
    reading: ExactReading, place: TopicPartition, within: OffsetRange
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a partition, about one fetch answer at a time. Raises PipelineError."""
    with cluster_errors(), closing(ClusterLinks(reading.bootstrap)) as links:
        view = links.ready_topic(place.topic)
        if view is None:
            raise PipelineError(f"{place} is gone from the cluster")
        course = Course(
            starts={place: within.start},
            ends={place: within.end},
            only_committed=reading.only_committed,
            tell_unreadable=_say_nothing if reading.leaves_out else None,
        )
        try:
            for answer in RecordFetcher(links, [view], course, _say_nothing).answers():
                records = [pair for batch in answer for pair in _records_in(batch, reading)]
                if records:
                    yield _rows(place, records)
        except (KafkaError, OSError) as error:
            raise PipelineError(getattr(error, "reason", f"{place}: {error}")) from error


def _say_nothing(_sentence: str) -> None:
    """Keep silent: left-out records are missing, and the job says why."""


def _records_in(batch: FetchedBatch, reading: ExactReading) -> Iterable[tuple[Record, int]]:
    """Yield records, each with the type of its timestamp."""
    header = batch.header
    kind = header.timestamp_type if header.magic else NO_TIMESTAMP
    tell = _say_nothing if reading.leaves_out else None
    return ((record, kind) for some in record_lists(batch, tell) for record in some)


def _rows(place: TopicPartition, records: list[tuple[Record, int]]) -> pa.RecordBatch:
    times = np.array([in_64_bits(record.timestamp) for record, _ in records], np.int64)
    headers = header_columns_of(record.headers for record, _ in records)
    columns = {
        "key": [record.key for record, _ in records],
        "value": [record.value for record, _ in records],
        "topic": pa.repeat(place.topic, len(records)),
        "partition": pa.repeat(pa.scalar(place.partition, pa.int32()), len(records)),
        "offset": [record.offset for record, _ in records],
        "timestamp": timestamps(times),
        "timestampType": [kind for _, kind in records],
        "headers": headers.headers,
        "timestampMs": timestamps_ms(times),
        "headerNames": headers.names,
    }
    return pa.RecordBatch.from_pydict(columns, _SCHEMA)
