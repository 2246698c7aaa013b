"""Encodes rows as records of format 2, many at once, with the bytes that
`default_record.write_record` gives one by one.

Each part of a record is an Arrow column of bytes, and the columns are joined into one buffer, in
which the records stand one after the other. No row becomes a Python object, except those with
headers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kbroker.pipeline.logdir.exact_columns import unix_ms
from kbroker.record.default_record import write_headers

Int64s = npt.NDArray[np.int64]

_NO_ATTRIBUTES: Final = pa.scalar(b"\0")
_NO_HEADERS: Final = b"\0"


@dataclass(frozen=True, slots=True)
class RowFields:
    """The fields of the records of some rows; one entry per row in each."""

    offsets: Int64s
    times_ms: Int64s  # -1: none
    keys: pa.Array
    values: pa.Array
    headers: pa.Array  # with their count, as bytes
    sizes: Int64s  # of the key, the value and the headers together, in bytes

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> RowFields:
        """Take the fields out of rows with the columns of an archive."""
        keys, values = rows.column("key"), rows.column("value")
        headers = encoded_headers(rows)
        sizes = sum(_lengths(column, 0) for column in (keys, values, headers))
        return cls(
            offsets=rows.column("offset").to_numpy(zero_copy_only=False),
            times_ms=unix_ms(rows),
            keys=keys,
            values=values,
            headers=headers,
            sizes=np.asarray(sizes),
        )


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """Records one after the other; number `n` begins at `bounds[n]` and ends before the next."""

    data: memoryview
    bounds: npt.NDArray[np.int32]

    def between(self, start: int, end: int) -> memoryview:
        """Return the bytes of records `start` to `end`, exclusive."""
        return self.data[int(self.bounds[start]) : int(self.bounds[end])]


def encoded(fields: RowFields, base_offsets: Int64s, base_times_ms: Int64s) -> EncodedRecords:
    """Return the records of these rows; the bases are those of each row's batch."""
    times = varints(fields.times_ms - base_times_ms)
    offsets = varints(fields.offsets - base_offsets)
    key_lengths = varints(_lengths(fields.keys, -1))
    value_lengths = varints(_lengths(fields.values, -1))
    small = (times, offsets, key_lengths, value_lengths)
    lengths = varints(1 + fields.sizes + sum(_lengths(column, 0) for column in small))
    joined = pc.binary_join_element_wise(
        lengths,
        _NO_ATTRIBUTES,
        times,
        offsets,
        key_lengths,
        fields.keys.fill_null(b""),
        value_lengths,
        fields.values.fill_null(b""),
        fields.headers,
        b"",  # between them
    )
    _, bounds, data = joined.buffers()
    return EncodedRecords(memoryview(data), np.frombuffer(bounds, np.int32)[: len(joined) + 1])


def encoded_headers(rows: pa.RecordBatch) -> pa.Array:
    """Return the headers of each record with their count, as they stand at its end."""
    column = rows.column("headers")
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    if not counts.any():
        return pa.repeat(pa.scalar(_NO_HEADERS), len(column))
    keys, values = column.flatten().flatten()
    pairs = list(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    found: list[bytes] = []
    at = 0
    for count, names in zip(counts.tolist(), _odd_names(rows), strict=True):
        part = pairs[at : at + count]
        if names is not None:
            part = [(name, value) for name, (_, value) in zip(names, part, strict=True)]
        found.append(_header_bytes(part) if count else _NO_HEADERS)
        at += count
    return pa.array(found, pa.binary())


def _odd_names(rows: pa.RecordBatch) -> Iterable[list[str] | None]:
    """Return the header names of each record with one that is not UTF-8, as `write_headers` takes
    them. Rows of Spark have no such column.
    """
    column = rows.column("headerNames") if "headerNames" in rows.schema.names else None
    if column is None or column.null_count == len(column):
        return repeat(None, rows.num_rows)
    return (
        None if names is None else [name.decode("utf-8", "surrogateescape") for name in names]
        for names in column.to_pylist()
    )


def varints(numbers: Int64s) -> pa.Array:
    """Return the zigzag varints of numbers, as `default_record.write_varint` writes them."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).astype(np.uint64)
    widest = max(1, -(-int(zigzag.max(initial=0)).bit_length() // 7))
    shifts = np.arange(widest, dtype=np.uint64) * np.uint64(7)
    groups = zigzag[:, None] >> shifts
    is_there = groups > 0
    is_there[:, 0] = True
    groups &= np.uint64(0x7F)
    groups[:, :-1] |= is_there[:, 1:].astype(np.uint64) << np.uint64(7)  # more follow
    data = groups.astype(np.uint8)[is_there]
    bounds = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(is_there.sum(axis=1), out=bounds[1:])
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(numbers), buffers)


def _lengths(column: pa.Array, of_null: int) -> Int64s:
    lengths: Int64s = pc.binary_length(column).fill_null(of_null).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def _header_bytes(pairs: list[tuple[Any, Any]]) -> bytes:
    out = bytearray()
    write_headers(out, tuple(pairs))
    return bytes(out)
