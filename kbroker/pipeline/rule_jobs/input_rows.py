"""Turns records of an input into rows: parses them by its schema, and sorts them into accepted,
broken (they do not fit) and late ones.

A row is late if its time is before the watermark, or before the newest time of the records before
it in its own partition by more than the delay: the second does not depend on where batches begin.
Doubles of accepted rows are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbroker.pipeline.rule_jobs.rule_spec import RECORD_COLUMNS, InputSpec
from kbroker.pipeline.rule_jobs.watermarks import PartitionTime
from kbroker.pipeline.sources.connector_or_exact import time_ms_of
from kbroker.pipeline.spark_job import functions as f

OK, BROKEN, LATE = "ok", "broken", "late"
TIME_US = "_us"  # the event's time in Unix microseconds
_CORRUPT = "_corrupt"
_OBJECT = r"^\s*\{"
_TIMES_US = (-62_135_596_800_000_000, 253_402_300_799_999_999)  # of the years 1 to 9999
_RAW = ("key", "value", "headers")


class InputRows:
    """One input. A Spark frame is typed Any; `schema` is a StructType."""

    def __init__(self, spec: InputSpec, spark: Any) -> None:
        """Parse the schema; raises Spark's error if it does not know one of its types."""
        self.spec = spec
        self.schema = ddl_schema(spark, spec.schema)

    def stored_schema(self) -> Any:
        """Return the columns of accepted rows."""
        from pyspark.sql.types import LongType, StructField, StructType

        fields = [StructField(each.name, each.dataType) for each in self.schema.fields]
        more = ddl_schema(
            None, ", ".join(f"{name} {kind}" for name, kind in RECORD_COLUMNS.items())
        )
        return StructType([*fields, *more.fields, StructField(TIME_US, LongType())])

    def told_apart(
        self,
        frame: Any,
        watermark_us: int | None,
        partitions: Mapping[str, PartitionTime],
        now_us: int,
    ) -> Any:
        """Return the rows of records, with `_class`, `_reason` and the record itself as `_raw`."""
        rows = frame.filter(f.col("topic").isin(list(self.spec.topics)))
        rows = self._parsed(rows).withColumn("_reason", self._reason(now_us))
        is_broken = f.col("_reason").isNotNull()
        rows = rows.withColumn("_class", f.when(is_broken, BROKEN).otherwise(OK))
        if self.spec.watermark_us is None:
            return rows
        bound_us = self._bound_us(watermark_us, partitions)
        is_late = ~is_broken & (f.col(TIME_US) < bound_us)
        return rows.withColumn("_class", f.when(is_late, LATE).otherwise(f.col("_class")))

    def without_doubles(self, rows: Any, kept: Any | None) -> Any:
        """Return the first of rows that have the same columns of `dedupe`, unless in `kept`."""
        from pyspark.sql import Window

        names = list(self.spec.dedupe)
        if not names:
            return rows
        order = Window.partitionBy(*names).orderBy("_topic", "_partition", "_offset")
        rows = rows.withColumn("_number", f.row_number().over(order))
        rows = rows.filter("_number = 1").drop("_number")
        if kept is None:
            return rows
        known = kept.select(*[f.col(name).alias(f"_known_{name}") for name in names])
        same = [rows[name].eqNullSafe(known[f"_known_{name}"]) for name in names]
        return rows.join(known, same, "left_anti")

    def _parsed(self, rows: Any) -> Any:
        text, time_ms = f.col("value").cast("string"), time_ms_of(rows)
        if self.spec.pattern is None:
            rows = rows.withColumn("_row", self._json(text))
            names = self.schema.fieldNames()
            columns = [f.col(f"_row.row.`{name}`").alias(name) for name in names]
            is_cut = f.col("_row.end").isNull()
            columns.append(
                f.when(is_cut, text).otherwise(f.col(f"_row.{_CORRUPT}")).alias(_CORRUPT)
            )
        else:
            columns = self._groups(text)
        rows = rows.select(
            *columns,
            f.col("key").cast("string").alias("_key"),
            f.col("topic").alias("_topic"),
            f.col("partition").alias("_partition"),
            f.col("offset").alias("_offset"),
            f.col("timestamp").alias("_timestamp"),
            f.struct(*_RAW, time_ms.alias("timestamp_ms")).alias("_raw"),
        )
        rows = rows.withColumn("_time", self._time(rows))
        return rows.withColumn(TIME_US, f.unix_micros("_time"))

    def _json(self, text: Any) -> Any:
        from pyspark.sql.types import StringType, StructField, StructType

        fields = [StructField(each.name, each.dataType) for each in self.schema.fields]
        parts = {"row": StructType(fields), "end": StringType(), _CORRUPT: StringType()}
        schema = StructType([StructField(name, kind) for name, kind in parts.items()])
        # Spark ignores what follows the first object, so the text has to end behind it.
        whole = f.concat(f.lit('{"row":'), text, f.lit(',"end":""}'))
        parsed = f.from_json(whole, schema, {"columnNameOfCorruptRecord": _CORRUPT})
        return f.when(text.rlike(_OBJECT), parsed)  # of a list Spark would take the first

    def _groups(self, text: Any) -> list[Any]:
        import re

        assert self.spec.pattern is not None
        groups = re.compile(self.spec.pattern).groupindex
        pattern = re.sub(r"\(\?P<\w+>", "(", self.spec.pattern)
        matches = text.rlike(f"^(?:{pattern})$")
        columns, wrong = [], ~matches
        for field in self.schema.fields:
            found = f.regexp_extract(text, f"^(?:{pattern})$", groups[field.name])
            made = found.try_cast(field.dataType)
            columns.append(f.when(matches, made).alias(field.name))
            wrong = wrong | (f.length(found) > 0) & made.isNull()
        return [*columns, f.when(wrong, text).alias(_CORRUPT)]

    def _time(self, rows: Any) -> Any:
        name = self.spec.time
        if name is None:
            return f.lit(None).cast("timestamp")
        kind = rows.schema[name].dataType.typeName()
        if kind in ("long", "integer"):
            millis = f.col(name)
            return f.when(
                millis.between(*(us // 1_000 for us in _TIMES_US)), f.timestamp_millis(millis)
            )
        time = f.col(name).cast("timestamp")
        return f.when(f.unix_micros(time).between(*_TIMES_US), time)

    def _reason(self, now_us: int) -> Any:
        """Return why a row is broken; null for one that is not."""
        form = "JSON of the schema" if self.spec.pattern is None else "text of the pattern"
        value = f.col("_raw.value")
        reason = f.when(value.isNull(), "the value is null")
        is_object = value.cast("string").rlike(_OBJECT)
        if self.spec.pattern is None:
            reason = reason.when(~is_object, f"the value is not {form}")
        reason = reason.when(f.col(_CORRUPT).isNotNull(), f"the value is not {form}")
        for field in self.schema.fields:
            if not field.nullable:
                reason = reason.when(f.col(f"`{field.name}`").isNull(), f"{field.name} is missing")
        if self.spec.time is not None:
            reason = reason.when(f.col("_time").isNull(), f"{self.spec.time} has no time")
        if self.spec.watermark_us is not None:
            is_ahead = f.col(TIME_US) > now_us + self.spec.ahead_us
            reason = reason.when(is_ahead, f"{self.spec.time} is too far ahead")
        return reason

    def _bound_us(self, watermark_us: int | None, partitions: Mapping[str, PartitionTime]) -> Any:
        """Return the time before which a row is late."""
        from pyspark.sql import Window

        before = (
            Window.partitionBy("_topic", "_partition")
            .orderBy("_offset")
            .rowsBetween(Window.unboundedPreceding, -1)
        )
        newest = f.max(f.when(f.col("_class") == OK, f.col(TIME_US))).over(before)
        known = f.lit(None).cast("long")
        for name, time in partitions.items():
            is_it = f.concat_ws("-", f.col("_topic"), f.col("_partition")) == name
            known = f.when(is_it, f.lit(time.newest_us)).otherwise(known)
        delay_us = self.spec.watermark_us or 0
        bounds = [newest - delay_us, known - delay_us]
        return f.greatest(*bounds, f.lit(watermark_us).cast("long"))


def ddl_schema(spark: Any, ddl: str) -> Any:
    """Return a StructType; raises Spark's error for DDL that it does not know."""
    from pyspark.sql.types import StructType

    del spark  # a session has to run
    return StructType.fromDDL(ddl)
