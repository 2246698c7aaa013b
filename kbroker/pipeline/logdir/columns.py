"""The columns that log directories offer, each with its Spark and its Arrow type.

Records have those of `kbroker.pipeline.envelope`, and LOG_COLUMNS, which only a log knows.
HEADER_COLUMNS describe a batch, read without opening it: null stands for what only its records
would say (a compressed message of format 0 or 1 names its last offset alone).

A time that a TIMESTAMP cannot hold is null, in header columns too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from kbroker.pipeline.envelope import ARCHIVE_COLUMNS


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

_COLUMNS: Final = {
    column.name: column
    for column in (
        Column("key", "BINARY", pa.binary()),
        Column("value", "BINARY", pa.binary()),
        Column("topic", "STRING", pa.string()),
        Column("partition", "INT", pa.int32()),
        Column("offset", "BIGINT", pa.int64()),
        Column("timestamp", "TIMESTAMP", TIMESTAMP),
        Column("timestampType", "INT", pa.int32()),
        Column("headers", _HEADERS_DDL, HEADERS),
        Column("timestampMs", "BIGINT", pa.int64()),
        Column("headerNames", "ARRAY<BINARY>", HEADER_NAMES),
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
        Column("sizeBytes", "BIGINT", pa.int64()),
        Column("baseOffset", "BIGINT", pa.int64()),  # may be null
        Column("lastOffset", "BIGINT", pa.int64()),
        Column("recordCount", "INT", pa.int32()),  # may be null
        Column("baseTimestamp", "TIMESTAMP", TIMESTAMP),  # may be null; the horizon if one is set
        Column("maxTimestamp", "TIMESTAMP", TIMESTAMP),  # may be null
        Column("baseSequence", "INT", pa.int32()),
        Column("lastSequence", "INT", pa.int32()),
        Column("hasDeleteHorizon", "BOOLEAN", pa.bool_()),
        Column("attributes", "INT", pa.int32()),
        Column("crc", "BIGINT", pa.int64()),
        Column("crcValid", "BOOLEAN", pa.bool_()),  # the only one that reads more than headers
    )
}

LOG_COLUMNS: Final = (
    "leaderEpoch", "producerId", "producerEpoch", "sequence", "isTransactional", "isControl",
    "batchBaseOffset", "compression", "magic", "segment", "position", "directory",
)  # fmt: skip
HEADER_COLUMNS: Final = (
    "topic", "partition", "segment", "position", "sizeBytes", "baseOffset", "lastOffset",
    "recordCount", "magic", "compression", "timestampType", "baseTimestamp", "maxTimestamp",
    "leaderEpoch", "producerId", "producerEpoch", "baseSequence", "lastSequence", "isTransactional",
    "isControl", "hasDeleteHorizon", "attributes", "crc", "directory", "crcValid",
)  # fmt: skip


def record_columns(names: Iterable[str]) -> tuple[Column, ...]:
    return _named((*ARCHIVE_COLUMNS, *LOG_COLUMNS), names)


def header_columns(names: Iterable[str]) -> tuple[Column, ...]:
    return _named(HEADER_COLUMNS, names)


def spark_schema(columns: Iterable[Column]) -> str:
    """The columns as a DDL string."""
    return ", ".join(f"{column.name} {column.spark_type}" for column in columns)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The columns as Arrow has them."""
    return pa.schema([(column.name, column.arrow_type) for column in columns])


def _named(known: Sequence[str], names: Iterable[str]) -> tuple[Column, ...]:
    wanted = tuple(names)
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        raise ValueError(
            f"no column {', '.join(unknown) or 'at all'}; there are {', '.join(known)}"
        )
    return tuple(_COLUMNS[name] for name in wanted)
