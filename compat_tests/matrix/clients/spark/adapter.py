"""Spark's Kafka connector, in batches: the sink writes, the source reads from offsets to offsets."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from compat_tests.matrix.serving.serve import BrokerError, Record, serve, to_json
from compat_tests.spark.quick_java import quick_java
from compat_tests.spark.session import connector_settings, open_session, spark_settings

COLUMNS = (
    "partition int, key binary, value binary, headers array<struct<key: string, value: binary>>"
)
SAVES = 10  # of a write with pauses


class Spark:
    """Calls by the names of the protocol."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._folder = Path(tempfile.mkdtemp(prefix="compat-spark-"))
        os.environ |= {"PYSPARK_PYTHON": sys.executable, **quick_java()}
        self._session = open_session({**spark_settings(self._folder), **connector_settings()})

    def hello(self) -> dict[str, str]:
        return {"version": str(self._session.version)}

    def code(self, error: Exception) -> int | None:
        return None

    def write(
        self, topic: str, records: list[Record], codec: str, acks: int, idempotent: bool,
        pause_ms: int = 0,
    ) -> None:  # fmt: skip
        options = {
            "topic": topic, "kafka.compression.type": codec, "kafka.acks": str(acks),
            "kafka.enable.idempotence": str(idempotent).lower(), "kafka.max.request.size": "2000000",
        }  # fmt: skip
        some = max(1, len(records) // SAVES) if pause_ms else len(records)
        for first in range(0, len(records), some):
            self._save(records[first : first + some], options)
            time.sleep(pause_ms / 1000)

    def _save(self, records: list[Record], options: dict[str, str]) -> None:
        rows = [
            (r.partition, _array(r.key), _array(r.value), [(n, _array(v)) for n, v in r.headers])
            for r in records
        ]
        frame = self._session.createDataFrame(rows, COLUMNS).coalesce(1)
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", self._bootstrap)
        try:
            writer.options(**options).save()
        except Exception as error:
            if "RecordTooLargeException" in str(error):
                raise BrokerError(10, "RecordTooLargeException") from error
            raise

    def _frame(self, topic: str, **options: str) -> Any:
        reader = self._session.read.format("kafka").option(
            "kafka.bootstrap.servers", self._bootstrap
        )
        assigned = json.dumps({topic: [0]})
        return reader.options(assign=assigned, includeHeaders="true", **options).load()

    def read(self, topic: str, start: int, count: int, committed: bool) -> list[dict[str, Any]]:
        isolation = "read_committed" if committed else "read_uncommitted"
        frame = self._frame(
            topic,
            startingOffsets=json.dumps({topic: {"0": start}}),
            **{"kafka.isolation.level": isolation},
        )
        found = frame.selectExpr(
            "key", "value", "headers", "unix_millis(timestamp) AS ms", "offset"
        ).orderBy("offset").limit(count)  # fmt: skip
        return [
            to_json(Record(
                0, _bytes(row.key), _bytes(row.value),
                tuple((header.key, _bytes(header.value)) for header in row.headers or ()),
                row.ms, row.offset,
            ))
            for row in found.collect()
        ]  # fmt: skip

    def offset_at(self, topic: str, timestamp: int) -> int:
        start = json.dumps({topic: {"0": timestamp}})
        frame = self._frame(topic, startingOffsetsByTimestamp=start)
        return int(frame.selectExpr("min(offset)").first()[0])

    def close(self) -> None:
        """Stop the session."""
        self._session.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


def _array(data: bytes | None) -> bytearray | None:
    return None if data is None else bytearray(data)


def _bytes(data: Any) -> bytes | None:
    return None if data is None else bytes(data)


if __name__ == "__main__":
    serve(Spark).close()
