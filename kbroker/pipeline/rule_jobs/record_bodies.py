"""Rows with key, value and headers as the records that a producer sends."""

from __future__ import annotations

from operator import add

import pyarrow as pa

from kbroker.pipeline.restoring.record_encoding import headers_of
from kbroker.record.bulk_records import bodies_of_pairs


def bodies_of(rows: pa.RecordBatch) -> list[bytes]:
    """Return the bodies of records, each with its own headers; see `bulk_records`."""
    bodies = bodies_of_pairs(rows.column("key").to_pylist(), rows.column("value").to_pylist())
    return list(map(add, bodies, headers_of(rows).to_pylist()))
