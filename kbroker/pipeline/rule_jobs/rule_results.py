"""Evaluates rules over rows: each rule sees its inputs, its tables and earlier rules as views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kbroker.pipeline.rule_jobs.rule_spec import WINDOW_COLUMNS, RuleSpec, RulesSpec, ScoreSpec
from kbroker.pipeline.rule_jobs.rule_sql import ORDER, merge_sql, rule_sql, score_sql, update_sql
from kbroker.pipeline.rule_jobs.watermarks import Closing
from kbroker.pipeline.spark_job import functions as f

_NEW, _OLD = "_new_rows", "_old_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOfStep:
    """Frames by input; `windowed` gives the rows that the closing windows of a rule need."""

    accepted: Mapping[str, Any]  # in this step
    windowed: Callable[[str, Closing], Any]
    closings: Mapping[str, Closing] = field(default_factory=dict)  # of rules with windows that end
    tables: Mapping[str, Any] = field(default_factory=dict)  # of rules that keep keys, before it


@dataclass(slots=True)
class Results:
    """Frames by rule or score. `tables` are those of rules that keep keys, after the step."""

    rows: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=dict)
    held: list[Any] = field(default_factory=list)  # frames to release

    def close(self) -> None:
        """Release frames that were kept for several readers."""
        for frame in self.held:
            frame.unpersist()


def evaluate(spark: Any, spec: RulesSpec, step: RowsOfStep) -> Results:
    """Return the results of a step. Frames are not computed yet: an error here is one of SQL."""
    results = Results()
    for rule in spec.rules.values():
        made = evaluate_rule(spark, spec, rule, step, results)
        if made is None:
            continue
        if _is_read_again(spec, rule):
            made = made.persist()
            results.held.append(made)
        results.rows[rule.name] = made
    for score in spec.scores.values():
        made = evaluate_score(spark, spec, score, results)
        if made is not None:
            results.rows[score.name] = made
    return results


def evaluate_rule(
    spark: Any, spec: RulesSpec, rule: RuleSpec, step: RowsOfStep, results: Results
) -> Any:
    """Return the rows of a rule; None if it has none in this step."""
    closing = step.closings.get(rule.name)
    if rule.window_us is not None:
        if closing is None:
            return None
        for name in rule.sources:
            in_windows(step.windowed(name, closing), closing).createOrReplaceTempView(name)
        return spark.sql(rule_sql(rule))
    for name in rule.sources:
        frame = step.accepted.get(name) if name in spec.inputs else results.rows.get(name)
        if frame is None:
            return None
        frame.createOrReplaceTempView(name)
    if not rule.is_update:
        return spark.sql(rule_sql(rule))
    return _updated(spark, rule, step.tables.get(rule.name), results)


def evaluate_score(spark: Any, spec: RulesSpec, score: ScoreSpec, results: Results) -> Any:
    """Return the rows of a score; None if none of its rules has any."""
    rules = [
        rule
        for rule in spec.rules.values()
        if score.name in rule.points and rule.name in results.rows
    ]
    if not rules:
        return None
    for rule in rules:
        results.rows[rule.name].createOrReplaceTempView(rule.name)
    return spark.sql(score_sql(score, rules))


def in_windows(rows: Any, closing: Closing) -> Any:
    """Return each row once for each of the closing windows that it is in."""
    window = f.window(
        "_time", f"{closing.window_us} microseconds", f"{closing.slide_us} microseconds"
    )
    start, end = WINDOW_COLUMNS
    rows = rows.withColumn("_window", window)
    rows = rows.withColumns({start: f.col("_window.start"), end: f.col("_window.end")})
    end_us = f.unix_micros(end)
    rows = rows.filter(end_us <= closing.until_us).drop("_window")
    return rows if closing.after_us is None else rows.filter(end_us > closing.after_us)


def _updated(spark: Any, rule: RuleSpec, old: Any, results: Results) -> Any:
    """Return the keys that have changed, with their new rows."""
    new = spark.sql(update_sql(rule))
    if old is None:
        old = spark.createDataFrame([], new.schema)
    new.createOrReplaceTempView(_NEW)
    old.createOrReplaceTempView(_OLD)
    types = {each.name: each.dataType.simpleString() for each in new.schema.fields}
    changed = spark.sql(merge_sql(rule, types, _NEW, _OLD)).persist()
    results.held.append(changed)
    same = [old[name].eqNullSafe(changed[name]) for name in rule.by]
    untouched = old.join(changed, same, "left_anti")
    results.tables[rule.name] = untouched.unionByName(changed)
    return changed.drop(ORDER)


def _is_read_again(spec: RulesSpec, rule: RuleSpec) -> bool:
    if rule.is_update:  # its frame is kept already
        return False
    readers = sum(rule.name in other.sources for other in spec.rules.values())
    return bool(rule.to) + readers + len(rule.points) > 1
