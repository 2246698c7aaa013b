"""SQL of rules that are given in parts."""

from __future__ import annotations

import pytest

from kbroker.pipeline.rule_jobs.rule_spec import RuleSpec, ScoreSpec
from kbroker.pipeline.rule_jobs.rule_sql import (
    aggregate,
    merge_sql,
    rule_sql,
    score_sql,
    update_sql,
)


def test_a_window_is_grouped_by() -> None:
    rule = RuleSpec(
        name="errors", sources=("logs",), where="level = 'ERROR'", by=("service",),
        select={"errors": "count(*)"}, having="errors >= 5", window_us=60, slide_us=60,
    )  # fmt: skip

    assert rule_sql(rule) == (
        "SELECT logs.window_start, logs.window_end, `service`, count(*) AS `errors`\n"
        "FROM logs\nWHERE level = 'ERROR'\n"
        "GROUP BY logs.window_start, logs.window_end, `service`\nHAVING errors >= 5"
    )


def test_rows_pass_as_they_are_or_with_chosen_columns() -> None:
    assert rule_sql(RuleSpec(name="all", sources=("logs",))) == "SELECT *\nFROM logs"
    joined = RuleSpec(
        name="some", sources=("logs",), join="JOIN regions USING (code)", select={"r": "region"}
    )
    assert rule_sql(joined) == "SELECT region AS `r`\nFROM logs\nJOIN regions USING (code)"


def test_rows_of_keys_are_summed_and_put_onto_those_before() -> None:
    rule = RuleSpec(
        name="totals", sources=("tasks",), by=("user",), is_update=True,
        select={"total": "sum(amount)", "state": "latest(state)"},
    )  # fmt: skip

    assert "max_by(state, struct(_time, _offset, _partition)) AS `state`" in update_sql(rule)
    merged = merge_sql(rule, {"total": "bigint", "state": "string"}, "new", "old")
    assert "CAST(coalesce(o.`total` + n.`total`, o.`total`, n.`total`) AS bigint)" in merged
    assert merged.endswith("FROM new n LEFT JOIN old o ON o.`user` <=> n.`user`")


@pytest.mark.parametrize("expression", ["avg(x)", "x", "count(DISTINCT user)"])
def test_sums_that_cannot_be_kept_are_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"is not sum|needs a window"):
        aggregate(expression)


def test_points_of_rules_are_summed_by_key_and_window() -> None:
    rules = [
        RuleSpec(name=name, sources=("x",), points={"risk": points})
        for name, points in (("many", "40"), ("new", "users * 5"))
    ]

    sql = score_sql(ScoreSpec(name="risk", by="device", threshold=50, to="risks"), rules)

    assert "CAST(users * 5 AS DOUBLE) AS points, 'new' AS rule FROM new" in sql
    assert sql.endswith("GROUP BY window_start, window_end, `device`\nHAVING sum(points) >= 50")
