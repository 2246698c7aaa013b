"""The output of a step, as files of its own: records with topic, key, value and headers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kbroker.pipeline.rule_jobs.input_rows import BROKEN, LATE, OK
from kbroker.pipeline.rule_jobs.rule_spec import WINDOW_COLUMNS, InputSpec
from kbroker.pipeline.rule_jobs.step_journal import OUTPUTS
from kbroker.pipeline.spark_job import functions as f

_HEADER = "STRUCT<key: STRING, value: BINARY>"
_ROWS_AT_ONCE = 5_000


class OutputFiles:
    """Outputs of a step that is being made, one after the other."""

    def __init__(self, staging: Path) -> None:
        self._folder = staging / OUTPUTS
        self._count = 0

    @property
    def is_empty(self) -> bool:
        return not any(self._folder.glob("*/*.parquet"))

    def add(self, records: Any) -> None:
        """Add records after those before; a frame of `result_records` or `put_aside`."""
        path = self._folder / f"{self._count:04}"
        self._count += 1
        records.write.parquet(f"file://{path}")


def result_records(rows: Any, topic: str, key: tuple[str, ...], *, is_kept: bool = False) -> Any:
    """Return records of results: the value is JSON of all columns except those that begin with `_`.
    `is_kept`: a topic keeps the newest of each key, so that none may be null.
    """
    names = [name for name in rows.columns if not name.startswith("_")]
    value = f.to_json(f.struct(*[_column(name) for name in names]), {"ignoreNullFields": "false"})
    if not key:
        made = f.lit(None).cast("string")
    else:
        made = f.to_json(f.struct(*map(_column, key)), {"ignoreNullFields": "false"})
        text = _column(key[0]).cast("string")
        made = made if len(key) > 1 else f.coalesce(text, made) if is_kept else text
    order = [name for name in WINDOW_COLUMNS[::-1] if name in names]
    if order:  # by window
        rows = rows.repartition(1).sortWithinPartitions(*order, *map(_column, key))
    return rows.select(
        f.lit(topic).alias("topic"),
        made.cast("binary").alias("key"),
        value.cast("binary").alias("value"),
        f.lit(None).cast(f"ARRAY<{_HEADER}>").alias("headers"),
    )


def put_aside(rows: Any, spec: InputSpec) -> Any:
    """Return records that are not accepted, with headers that say why and from where."""
    late = "its time is before the watermark"
    more = {
        "rules-reason": f.coalesce(f.col("_reason"), f.lit(late)),
        "rules-topic": f.col("_topic"),
        "rules-partition": f.col("_partition"),
        "rules-offset": f.col("_offset"),
        "rules-timestamp": f.col("_raw.timestamp_ms"),
    }
    added = f.array(
        *[
            f.struct(f.lit(name).alias("key"), each.cast("string").cast("binary").alias("value"))
            for name, each in more.items()
        ]
    ).cast(f"ARRAY<{_HEADER}>")
    own = f.coalesce(f.col("_raw.headers"), f.array().cast(f"ARRAY<{_HEADER}>"))
    topic = f.when(f.col("_class") == LATE, spec.late).when(f.col("_class") == BROKEN, spec.broken)
    return rows.filter(f.col("_class") != OK).select(
        topic.alias("topic"),
        f.col("_raw.key").alias("key"),
        f.col("_raw.value").alias("value"),
        f.concat(own, added).alias("headers"),
    )


def output_rows(step_path: Path) -> Iterator[pa.RecordBatch]:
    """Yield all records of a step, in order, at most 5,000 at once."""
    for path in sorted((step_path / OUTPUTS).glob("*/*.parquet")):
        yield from pq.ParquetFile(path).iter_batches(batch_size=_ROWS_AT_ONCE)


def _column(name: str) -> Any:
    return f.col(f"`{name}`")
