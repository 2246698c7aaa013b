"""The columns of a record, named and typed as Spark's Kafka source does with `includeHeaders`.

One schema for the Kafka source, the log directory source and archives, so that a job does not know
where its rows come from. As there: `headers` is null for a record without headers, `timestampType`
is 0 (CreateTime), 1 (LogAppendTime) or -1 (formats without times), a missing time is -1 ms.
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
RECORD_SCHEMA: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
