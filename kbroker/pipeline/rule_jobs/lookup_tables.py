"""Tables that rules join with, loaded again while the job runs.

A table is small: all of it goes to every task. If it cannot be read again, rules go on with the old
rows, and a note says so. While a broker restarts, a table of a topic waits: it may have rows that
were written before the records of the batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.rule_jobs.input_rows import ddl_schema
from kbroker.pipeline.rule_jobs.rule_spec import TableSpec
from kbroker.pipeline.sources.connector_or_exact import worked_on
from kbroker.pipeline.spark_job import functions as f
from kbroker.pipeline.spark_job.offsets import OffsetRange
from kbroker.pipeline.spark_job.source import Source
from kbroker.pipeline.spark_job.stream_failure import is_of_spark, sentence_of_failure

_PATIENCE_S = 120.0  # with a broker that restarts
_PAUSE_S = 0.5


class LookupTables:
    """Owned by the thread of the batches."""

    def __init__(
        self,
        tables: Iterable[TableSpec],
        source_of: Callable[[str], Source],
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._tables = [_Table(each, source_of, now_s, sleep) for each in tables]

    def views(self, spark: Any) -> list[str]:
        """Register each table as a view; return notes on those that could not be read again.

        Raises PipelineError for one that could never be read.
        """
        notes = (each.view(spark) for each in self._tables)
        return [note for note in notes if note is not None]


class _Table:
    def __init__(
        self,
        spec: TableSpec,
        source_of: Callable[[str], Source],
        now_s: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._spec = spec
        self._source_of = source_of
        self._now_s = now_s
        self._sleep = sleep
        self._rows: Any = None  # of Arrow
        self._loaded_s = 0.0
        self._mark: object = None  # of the file that was read

    def view(self, spark: Any) -> str | None:
        note, now_s = None, self._now_s()
        if self._rows is None or (now_s - self._loaded_s) * 1e6 >= self._spec.reload_us:
            note = self._load(spark)
            self._loaded_s = now_s
        schema = ddl_schema(spark, self._spec.schema)
        frame = spark.createDataFrame(self._rows, schema)
        f.broadcast(frame).createOrReplaceTempView(self._spec.name)
        return note

    def _load(self, spark: Any) -> str | None:
        mark = self._file_mark()
        if self._rows is not None and mark is not None and mark == self._mark:
            return None
        try:
            self._rows, self._mark = self._read_patiently(spark), mark
        except PipelineError as error:
            refusal = error
        except Exception as error:
            if not is_of_spark(error):
                raise
            refusal = sentence_of_failure(error)
        else:
            return None
        what = self._spec.path or f"topic {self._spec.topic}"
        sentence = f"table {self._spec.name} cannot be read from {what}: {refusal.sentence}"
        if self._rows is None:
            raise PipelineError(sentence, ExitCode.ITEM_FAILED) from refusal
        return f"{sentence}; rules go on with the rows it had"

    def _file_mark(self) -> object:
        if self._spec.path is None:
            return None
        try:
            found = Path(self._spec.path).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read_patiently(self, spark: Any) -> Any:
        give_up_s = self._now_s() + _PATIENCE_S
        while True:
            try:
                return self._read(spark)
            except PipelineError as error:
                is_away = error.code is ExitCode.CANNOT_CONNECT
                if self._rows is None or not is_away or self._now_s() > give_up_s:
                    raise
            self._sleep(_PAUSE_S)

    def _read(self, spark: Any) -> Any:
        if self._spec.topic is not None:
            return self._read_topic(spark, self._spec.topic)
        path = Path(str(self._spec.path)).absolute()
        if not path.exists():
            raise PipelineError("there is no such file")
        reader = spark.read.schema(ddl_schema(spark, self._spec.schema))
        options = {"mode": "FAILFAST"}
        if self._spec.form == "csv":
            options |= {"header": "true", "enforceSchema": "false"}
        return reader.options(**options).format(self._spec.form).load(f"file://{path}").toArrow()

    def _read_topic(self, spark: Any, topic: str) -> Any:
        source = self._source_of(topic)
        starts, ends = source.earliest(), source.latest()
        ranges = {
            each: OffsetRange(start, ends[each])
            for each, start in starts.items()
            if ends.get(each, 0) > start
        }
        schema = ddl_schema(spark, self._spec.schema)
        if not ranges:
            return spark.createDataFrame([], schema).toArrow()
        return worked_on(source, spark, ranges, partial(_newest_rows, schema=schema))


def _newest_rows(frame: Any, schema: Any) -> Any:
    """Return the newest record of each key, as rows of Arrow."""
    newest = f.max_by("value", "offset").alias("value")
    rows = frame.groupBy("key", "partition").agg(newest).filter("value IS NOT NULL")
    parsed = f.from_json(f.col("value").cast("string"), schema, {"mode": "FAILFAST"})
    return rows.select(parsed.alias("row")).select("row.*").toArrow()
