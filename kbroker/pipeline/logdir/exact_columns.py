"""Times and names of headers as Arrow columns, with nothing lost: what does not fit the types of
Spark's Kafka source stands beside it, in `envelope.EXACT_COLUMNS`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kbroker.model import NO_TIMESTAMP
from kbroker.pipeline.logdir.columns import HEADER_NAMES, HEADERS, TIMESTAMP
from kbroker.pipeline.logdir.java_text import java_text
from kbroker.record.default_record import Headers

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_US_PER_MS: Final = 1000
_MAX_MS: Final = (2**63 - 1) // _US_PER_MS
_MIN_MS: Final = -(2**63 // _US_PER_MS)
_NO_TIME_US: Final = NO_TIMESTAMP * _US_PER_MS


def timestamps(times_ms: Int64s) -> pa.Array:
    """Unix ms as Spark's TIMESTAMP; null if a time does not fit."""
    fits = _fits(times_ms)
    if fits.all():
        return pa.array(times_ms * _US_PER_MS).view(TIMESTAMP)
    shown = pa.array(np.where(fits, times_ms, 0), mask=~fits)
    return pc.multiply(shown, _US_PER_MS).view(TIMESTAMP)


def timestamps_ms(times_ms: Int64s) -> pa.Array:
    """Unix ms of the times that do not fit a TIMESTAMP, else null."""
    return pa.array(times_ms, mask=_fits(times_ms))


def _fits(times_ms: Int64s) -> Bools:
    return (times_ms >= _MIN_MS) & (times_ms <= _MAX_MS)


def unix_ms(rows: pa.RecordBatch | pa.Table) -> Int64s:
    """The times of rows in Unix ms, -1 if a row has none. Rows of archives by older versions may
    lack `timestampMs`.
    """
    times: Int64s = _numbers(rows.column("timestamp").cast(pa.int64()), _NO_TIME_US) // _US_PER_MS
    if "timestampMs" in rows.schema.names:
        exact = rows.column("timestampMs")
        if exact.null_count < len(exact):
            is_exact = pc.is_valid(exact).to_numpy(zero_copy_only=False)
            times = np.where(is_exact, _numbers(exact, NO_TIMESTAMP), times)
    return times


def may_lack_names(rows: pa.RecordBatch) -> bool:
    """True if a header's name may have had other bytes than Spark's connector gives."""
    column = rows.column("headers")
    if column.null_count == len(column):
        return False
    names, _ = column.flatten().flatten()
    return bool(pc.any(pc.match_substring(names, "\ufffd")).as_py())


def with_exact_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Add the columns that rows of Spark's Kafka connector lack, as nulls."""
    for name, kind in (("timestampMs", pa.int64()), ("headerNames", HEADER_NAMES)):
        if name not in rows.schema.names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, kind))
    return rows


def _numbers(column: Any, of_null: int) -> Int64s:
    numbers: Int64s = column.fill_null(of_null).to_numpy(zero_copy_only=False)
    return numbers


class HeaderColumns(NamedTuple):
    """The columns `headers` and `headerNames` of some records."""

    headers: pa.Array
    names: pa.Array


def header_columns_of(headers: Iterable[Headers]) -> HeaderColumns:
    """Make the columns of records that `kbroker.record` decoded one by one."""
    pairs: list[list[dict[str, str | bytes | None]] | None] = []
    names: list[list[bytes] | None] = []
    for each in headers:
        known = [name.encode("utf-8", "surrogateescape") for name, _ in each]
        texts = [java_text(name) for name in known]
        is_text = all(text == name for text, (name, _) in zip(texts, each, strict=True))
        named = zip(texts, each, strict=True)
        pairs.append([{"key": text, "value": value} for text, (_, value) in named] or None)
        names.append(None if is_text else known)
    return HeaderColumns(pa.array(pairs, HEADERS), pa.array(names, HEADER_NAMES))


def header_columns_from(counts: Int64s, names: pa.Array, values: pa.Array) -> HeaderColumns:
    """Make the columns of records with `counts` headers each; `names` and `values` of all, as
    bytes.
    """
    texts, odd = _texts(names)
    pairs = pa.StructArray.from_arrays([texts, values], fields=list(HEADERS.value_type))
    ends = pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
    headers = pa.ListArray.from_arrays(ends, pairs, type=HEADERS, mask=pa.array(counts == 0))
    if odd is None:
        return HeaderColumns(headers, pa.nulls(len(counts), HEADER_NAMES))
    is_text = np.ones(len(counts), np.bool_)
    is_text[np.repeat(np.arange(len(counts)), counts)[odd]] = False
    exact = pa.ListArray.from_arrays(ends, names, type=HEADER_NAMES, mask=pa.array(is_text))
    return HeaderColumns(headers, exact)


def no_header_columns(count: int) -> HeaderColumns:
    return HeaderColumns(pa.nulls(count, HEADERS), pa.nulls(count, HEADER_NAMES))


def _texts(names: pa.Array) -> tuple[pa.Array, Bools | None]:
    """Names as text, and a flag for each that is not UTF-8; None: all are."""
    try:
        return names.cast(pa.string()), None
    except pa.ArrowInvalid:
        known = names.to_pylist()
        texts = [java_text(name) for name in known]
        odd = np.array([text.encode() != name for text, name in zip(texts, known, strict=True)])
        return pa.array(texts, pa.string()), odd
