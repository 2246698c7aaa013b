"""Rows of an archive as the records that a producer sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kbroker.record.bulk_records import bodies_of_pairs
from kbroker.record.default_record import write_headers

_NO_HEADERS = b"\0"
NO_TIME_MS = -1


def bodies_of(rows: pa.RecordBatch) -> list[bytes]:
    """The bodies of records, each with its own headers; see `bulk_records`."""
    keys = rows.column("key").to_pylist()
    bodies = bodies_of_pairs(keys, rows.column("value").to_pylist())
    headers = rows.column("headers")
    if headers.null_count == len(headers):
        return [body + _NO_HEADERS for body in bodies]
    return [body + _tail(each) for body, each in zip(bodies, headers.to_pylist(), strict=True)]


def times_of(rows: pa.RecordBatch) -> list[int]:
    """Their times in Unix ms, NO_TIME_MS where a record has none."""
    times_us = rows.column("timestamp").cast(pa.int64())
    missing = times_us.is_null().to_numpy(zero_copy_only=False)
    times_ms = times_us.fill_null(0).to_numpy(zero_copy_only=False) // 1_000
    found: list[int] = np.where(missing, NO_TIME_MS, times_ms).tolist()
    return found


def _tail(headers: Sequence[Mapping[str, Any]] | None) -> bytes:
    if not headers:
        return _NO_HEADERS
    out = bytearray()
    write_headers(out, tuple((header["key"], header["value"]) for header in headers))
    return bytes(out)
