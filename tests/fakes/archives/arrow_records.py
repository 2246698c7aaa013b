"""Records as Spark hands them to a task: Arrow batches with the columns of a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kbroker.pipeline.envelope import RECORD_COLUMNS

BASE_MS = 1_795_266_000_000  # 2026-11-21 13:00 UTC
HOUR_MS = 3_600_000

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ARROW_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", _HEADERS),
    ]
)
assert tuple(ARROW_SCHEMA.names) == RECORD_COLUMNS


def record(offset: int, **fields: Any) -> dict[str, Any]:
    """One record; `timestamp` in Unix ms."""
    row = {
        "key": b"k%d" % offset,
        "value": b"v%d" % offset,
        "topic": "t",
        "partition": 0,
        "offset": offset,
        "timestamp": BASE_MS + offset,
        "timestampType": 0,
        "headers": None,
    } | fields
    row["timestamp"] *= 1_000
    return row


def arrow_batch(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """Rows as one Arrow batch; columns beyond those of a record come last, as strings."""
    extra = [name for name in rows[0] if name not in RECORD_COLUMNS]
    schema = pa.schema([*ARROW_SCHEMA, *((name, pa.string()) for name in extra)])
    return pa.RecordBatch.from_pylist(list(rows), schema)


def unplaced_batch(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """Rows as one Arrow batch without the columns that are the same for all of a partition."""
    return arrow_batch(rows).drop_columns(["topic", "partition"])
