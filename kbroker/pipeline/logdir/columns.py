"""The columns that log directories offer, each with its Spark and its Arrow type, in one home.

RECORD_COLUMNS and EXACT_COLUMNS are those of `kbroker.pipeline.envelope`; LOG_COLUMNS say more of a
record, and only a log knows it. HEADER_COLUMNS describe a batch, read without opening it: null
stands where only its records would tell (a compressed message of format 0 or 1 names its last
offset alone).

A time that a TIMESTAMP cannot hold is null, in header columns too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import pyarrow as pa

from kbroker.pipeline import envelope


class Column(NamedTuple):
    """One column as Spark and as Arrow name its type."""

    name: str
    spark_type: str  # as in a DDL string
    arrow_type: pa.DataType


TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
HEADER_NAMES: Final = pa.list_(pa.field("element", pa.binary()))
_HEADERS_DDL: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"

_RECORD: Final = (
    Column("key", "BINARY", pa.binary()),
    Column("value", "BINARY", pa.binary()),
    Column("topic", "STRING", pa.string()),
    Column("partition", "INT", pa.int32()),
    Column("offset", "BIGINT", pa.int64()),
    Column("timestamp", "TIMESTAMP", TIMESTAMP),
    Column("timestampType", "INT", pa.int32()),
    Column("headers", _HEADERS_DDL, HEADERS),
)
_EXACT: Final = (
    Column("timestampMs", "BIGINT", pa.int64()),
    Column("headerNames", "ARRAY<BINARY>", HEADER_NAMES),
)
_LOG: Final = (
    Column("leaderEpoch", "INT", pa.int32()),  # -1: none
    Column("producerId", "BIGINT", pa.int64()),  # -1: none, as the two below
    Column("producerEpoch", "SMALLINT", pa.int16()),
    Column("sequence", "INT", pa.int32()),
    Column("isTransactional", "BOOLEAN", pa.bool_()),
    Column("isControl", "BOOLEAN", pa.bool_()),
    Column("batchBaseOffset", "BIGINT", pa.int64()),  # null: a compressed message, formats 0, 1
    Column("compression", "STRING", pa.string()),
    Column("magic", "INT", pa.int32()),
    Column("segment", "BIGINT", pa.int64()),  # base offset, which names the file
    Column("position", "BIGINT", pa.int64()),  # of the batch in the file
    Column("directory", "STRING", pa.string()),  # of the partition
)
_HEADER: Final = (
    Column("topic", "STRING", pa.string()),
    Column("partition", "INT", pa.int32()),
    Column("segment", "BIGINT", pa.int64()),
    Column("position", "BIGINT", pa.int64()),
    Column("sizeBytes", "BIGINT", pa.int64()),
    Column("baseOffset", "BIGINT", pa.int64()),  # may be null
    Column("lastOffset", "BIGINT", pa.int64()),
    Column("recordCount", "INT", pa.int32()),  # may be null
    Column("magic", "INT", pa.int32()),
    Column("compression", "STRING", pa.string()),
    Column("timestampType", "INT", pa.int32()),
    Column("baseTimestamp", "TIMESTAMP", TIMESTAMP),  # may be null; the horizon where that is set
    Column("maxTimestamp", "TIMESTAMP", TIMESTAMP),  # may be null
    Column("leaderEpoch", "INT", pa.int32()),
    Column("producerId", "BIGINT", pa.int64()),
    Column("producerEpoch", "SMALLINT", pa.int16()),
    Column("baseSequence", "INT", pa.int32()),
    Column("lastSequence", "INT", pa.int32()),
    Column("isTransactional", "BOOLEAN", pa.bool_()),
    Column("isControl", "BOOLEAN", pa.bool_()),
    Column("hasDeleteHorizon", "BOOLEAN", pa.bool_()),
    Column("attributes", "INT", pa.int32()),
    Column("crc", "BIGINT", pa.int64()),
    Column("directory", "STRING", pa.string()),  # of the partition
    Column("crcValid", "BOOLEAN", pa.bool_()),  # the only one that reads more than headers
)

RECORD_COLUMNS: Final = envelope.RECORD_COLUMNS
EXACT_COLUMNS: Final = envelope.EXACT_COLUMNS
LOG_COLUMNS: Final = tuple(column.name for column in _LOG)
HEADER_COLUMNS: Final = tuple(column.name for column in _HEADER)

_RECORD_TABLE: Final = {column.name: column for column in (*_RECORD, *_EXACT, *_LOG)}
_HEADER_TABLE: Final = {column.name: column for column in _HEADER}


def record_columns(names: Iterable[str]) -> tuple[Column, ...]:
    """The columns of a record with these names; ValueError if there is none of that name."""
    return _named(_RECORD_TABLE, names)


def header_columns(names: Iterable[str]) -> tuple[Column, ...]:
    """The columns of a batch with these names; ValueError if there is none of that name."""
    return _named(_HEADER_TABLE, names)


def spark_schema(columns: Iterable[Column]) -> str:
    """The columns as a DDL string."""
    return ", ".join(f"{column.name} {column.spark_type}" for column in columns)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The columns as Arrow has them."""
    return pa.schema([(column.name, column.arrow_type) for column in columns])


def _named(table: dict[str, Column], names: Iterable[str]) -> tuple[Column, ...]:
    wanted = tuple(names)
    unknown = [name for name in wanted if name not in table]
    if unknown or not wanted:
        raise ValueError(
            f"no column {', '.join(unknown) or 'at all'}; there are {', '.join(table)}"
        )
    return tuple(table[name] for name in wanted)
