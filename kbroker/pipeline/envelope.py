"""The columns of a record, named and typed as Spark's Kafka source does with `includeHeaders`.

One schema serves the Kafka source, the log directory source and archives, so that a job does not
know where its rows come from. As in Spark, `headers` is null for a record without headers,
`timestampType` is 0 (CreateTime), 1 (LogAppendTime) or -1 (formats without times), and a missing
time is -1 ms.

Logs and archives have EXACT_COLUMNS for two things that these types cannot hold; both are null for
all other records. `timestampMs` is a time beyond the range of a TIMESTAMP (about 292,000 years from
1970), in Unix ms; `timestamp` is null then. `headerNames` are the names of all headers of a record
as bytes, if one is not UTF-8; `headers` then has them as Java decodes them.
"""

from __future__ import annotations

from typing import Final

RECORD_COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)
EXACT_COLUMNS: Final = ("timestampMs", "headerNames")
ARCHIVE_COLUMNS: Final = (*RECORD_COLUMNS, *EXACT_COLUMNS)
RECORD_SCHEMA: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
ARCHIVE_SCHEMA: Final = f"{RECORD_SCHEMA}, timestampMs BIGINT, headerNames ARRAY<BINARY>"
