"""Byte strings that lie scattered in a buffer, as Arrow arrays, with no look at each one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kbroker.pipeline.logdir.decode.record_fields import HeaderFields, Spans
from kbroker.pipeline.logdir.exact_columns import (
    HeaderColumns,
    header_columns_from,
    no_header_columns,
)
from kbroker.record.default_record import Bytes


def binary_array(buffer: Bytes, spans: Spans) -> pa.Array:
    """The strings as a BINARY column; Arrow copies them once."""
    count = len(spans.starts)
    lengths = spans.lengths
    is_null = lengths < 0
    has_nulls = bool(is_null.any())
    if not count or (has_nulls and is_null.all()):
        return pa.nulls(count, pa.binary())
    # An array of all strings and of the gaps between them; of that, every other one.
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = spans.starts
    bounds[1::2] = spans.starts + np.maximum(lengths, 0)
    both = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(buffer)]
    )
    chosen = np.arange(0, 2 * count, 2, dtype=np.int32)
    return both.take(pa.array(chosen, mask=is_null if has_nulls else None))


def headers_arrays(buffer: Bytes, headers: HeaderFields | None, count: int) -> HeaderColumns:
    """The header columns of `count` records: null for a record without headers."""
    if headers is None or not len(headers.keys.starts):
        return no_header_columns(count)
    names, values = binary_array(buffer, headers.keys), binary_array(buffer, headers.values)
    return header_columns_from(headers.counts, names, values)
