"""Checks rules by Spark's analyser before any work, over empty rows with the real columns.

Spark's complaint about SQL that does not fit becomes one sentence, with the nearest name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kbroker.near_names import did_you_mean
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.rule_jobs.input_rows import InputRows, ddl_schema
from kbroker.pipeline.rule_jobs.rule_results import (
    Results,
    RowsOfStep,
    evaluate_rule,
    evaluate_score,
)
from kbroker.pipeline.rule_jobs.rule_spec import WINDOW_COLUMNS, RuleSpec, RulesSpec
from kbroker.pipeline.rule_jobs.rule_sql import aggregate
from kbroker.pipeline.rule_jobs.watermarks import Closing

_PART = re.compile("`([^`]*)`")  # of a name as Spark quotes it


def check_rules(spark: Any, spec: RulesSpec, place: str) -> dict[str, Any]:
    """Return the schemas of all results, by rule or score. Raises PipelineError."""
    return _Check(spark, spec, place).schemas()


class _Check:
    def __init__(self, spark: Any, spec: RulesSpec, place: str) -> None:
        self._spark, self._spec, self._place = spark, spec, place
        self._columns: dict[str, list[str]] = {}  # by input, table and rule

    def schemas(self) -> dict[str, Any]:
        empty = {name: self._empty_input(name) for name in self._spec.inputs}
        for name in self._spec.tables:
            frame = self._frame("tables", name, self._spec.tables[name].schema)
            frame.createOrReplaceTempView(name)
        closings = {
            rule.name: Closing(None, 0, rule.window_us, rule.slide_us or rule.window_us)
            for rule in self._spec.rules.values()
            if rule.window_us is not None
        }
        step = RowsOfStep(accepted=empty, windowed=lambda name, _: empty[name], closings=closings)
        results = Results()
        try:
            for rule in self._spec.rules.values():
                results.rows[rule.name] = self._result(rule, step, results)
            for score in self._spec.scores.values():
                results.rows[score.name] = self._checked(
                    f"[scores.{score.name}]",
                    lambda score=score: evaluate_score(self._spark, self._spec, score, results),
                )
        finally:
            results.close()
        return {name: frame.schema for name, frame in results.rows.items()}

    def _empty_input(self, name: str) -> Any:
        spec = self._spec.inputs[name]
        self._frame("inputs", name, spec.schema)
        rows = InputRows(spec, self._spark)
        if spec.time is not None and not spec.time.startswith("_"):
            kind = rows.schema[spec.time].dataType.typeName()
            if kind not in ("timestamp", "timestamp_ntz", "long", "integer", "date"):
                raise self._refusal(
                    f"[inputs.{name}]",
                    f"has the time {spec.time}, which is {kind.upper()}: a time is TIMESTAMP, or "
                    "BIGINT in Unix milliseconds",
                )
        frame = self._spark.createDataFrame([], rows.stored_schema())
        self._columns[name] = [each for each in frame.columns if not each.startswith("_us")]
        return frame

    def _frame(self, kind: str, name: str, schema: str) -> Any:
        try:
            frame = self._spark.createDataFrame([], ddl_schema(self._spark, schema))
        except Exception as error:
            raise self._sentence(f"[{kind}.{name}], schema", error) from error
        self._columns[name] = frame.columns
        return frame

    def _result(self, rule: RuleSpec, step: RowsOfStep, results: Results) -> Any:
        place = f"[rules.{rule.name}]"
        if rule.having:  # HAVING may name them, so a wrong name may be near to them
            self._columns[rule.name] = [*rule.select, *(WINDOW_COLUMNS if rule.window_us else ())]
        if rule.is_update:
            for expression in rule.select.values():
                try:
                    aggregate(expression)
                except ValueError as error:
                    raise self._refusal(place, f"cannot keep {error}") from error
        frame = self._checked(
            place, lambda: evaluate_rule(self._spark, self._spec, rule, step, results)
        )
        self._columns[rule.name] = frame.columns
        if rule.window_us is not None and not set(WINDOW_COLUMNS) & set(frame.columns):
            raise self._refusal(
                place,
                "has a window, and its SQL gives neither window_start nor window_end: group by "
                "them, and join on them, or windows are mixed",
            )
        for key in rule.key:
            self._needs(place, key, frame.columns)
        for score in rule.points:
            for column in (*WINDOW_COLUMNS, self._spec.scores[score].by):
                self._needs(f"{place}, points for {score}", column, frame.columns)
        return frame

    def _needs(self, place: str, column: str, columns: Collection[str]) -> None:
        if column not in columns:
            near = did_you_mean(column, columns, shown=1) or f": it gives {', '.join(columns)}"
            raise self._refusal(place, f"gives no column {column}{near}")

    def _checked(self, place: str, make: Any) -> Any:
        try:
            return make()
        except PipelineError:
            raise
        except Exception as error:
            raise self._sentence(place, error) from error

    def _sentence(self, place: str, error: Exception) -> PipelineError:
        from pyspark.errors import PySparkException

        if not isinstance(error, PySparkException):
            raise error
        kind = str(error.getCondition() or "").partition(".")[0]
        words = error.getMessageParameters() or {}
        known = sorted({name for found in self._columns.values() for name in found})
        if kind == "UNRESOLVED_COLUMN":
            return self._refusal(place, self._unknown_column(words.get("objectName"), known))
        if kind == "TABLE_OR_VIEW_NOT_FOUND":
            names = [*self._spec.tables, *self._spec.inputs, *self._spec.rules]
            return self._refusal(
                place, _unknown("input, table or rule", words.get("relationName"), names)
            )
        if kind == "UNRESOLVED_ROUTINE":
            functions = (each.name for each in self._spark.catalog.listFunctions())
            return self._refusal(place, _unknown("function", words.get("routineName"), functions))
        return self._refusal(place, f"is not right: {_first_words(error, words)}")

    def _unknown_column(self, quoted: str | None, known: Sequence[str]) -> str:
        """Refuse an unknown column; one of another table is named with its table."""
        parts = _PART.findall(quoted or "")
        if len(parts) == 1 and parts[0].rpartition(".")[2] in known:
            table, _, column = parts[0].rpartition(".")
            return (
                f"groups by {parts[0]}: by has columns without their table, so give {column}; "
                f"where {table} is joined with another one that has it, join with "
                f"USING ({column})"
            )
        if len(parts) > 1 and parts[-1] in known:
            every = [f"{table}.{each}" for table in self._columns for each in self._columns[table]]
            name = ".".join(parts[-2:])
            hint = did_you_mean(name, every, shown=1)
            return f"names the column {name}, which is not there{hint}"
        return _unknown("column", quoted, known)

    def _refusal(self, place: str, sentence: str) -> PipelineError:
        return PipelineError(f"{self._place}, {place} {sentence}", ExitCode.USAGE)


def _unknown(what: str, quoted: str | None, known: Any) -> str:
    name = (quoted or "").replace("`", "").rpartition(".")[2]
    names = list(known)
    hint = did_you_mean(name, names, shown=1)
    if not hint and len(names) < 40:
        hint = f": there are {', '.join(names)}"
    return f"names the {what} {name}, which is not there{hint}"


def _first_words(error: Any, words: Mapping[str, str]) -> str:
    del words
    text = " ".join(str(error).split("\n\n")[0].split("SQLSTATE")[0].split())
    return text.partition("] ")[2][:300] or text[:300]
