"""Makes the SQL of rules and scores that are given in parts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kbroker.pipeline.rule_jobs.rule_spec import WINDOW_COLUMNS, RuleSpec, ScoreSpec

ORDER = "_order"
"""Column of a table of keys: when the newest record of the key was, to compare records by."""
_AGGREGATE = re.compile(r"\s*(sum|count|min|max|latest)\s*\((.*)\)\s*", re.DOTALL | re.IGNORECASE)
_MERGED = {
    "sum": "coalesce(o.{c} + n.{c}, o.{c}, n.{c})",
    "count": "coalesce(o.{c}, 0) + n.{c}",
    "min": "least(o.{c}, n.{c})",
    "max": "greatest(o.{c}, n.{c})",
    "latest": f"CASE WHEN o.{ORDER} > n.{ORDER} THEN o.{{c}} ELSE n.{{c}} END",
}


def quoted(name: str) -> str:
    """Quote a name so that SQL takes it in any case."""
    return f"`{name}`"


def rule_sql(rule: RuleSpec) -> str:
    """Return the SQL of a rule that keeps no keys."""
    if rule.sql is not None:
        return rule.sql
    groups = [quoted(name) for name in rule.by]
    if rule.window_us is not None:
        source = rule.sources[0]
        groups = [f"{source}.{name}" for name in WINDOW_COLUMNS] + groups
    columns = [f"{each} AS {quoted(name)}" for name, each in rule.select.items()]
    if not rule.select:
        columns = ["count(*) AS `count`"] if groups else ["*"]
    text = f"SELECT {', '.join([*groups, *columns])}\n{_rows_of(rule)}"
    if groups:
        text += f"\nGROUP BY {', '.join(groups)}"
    return text + (f"\nHAVING {rule.having}" if rule.having else "")


def update_sql(rule: RuleSpec) -> str:
    """Return the SQL that sums up the rows of a batch by key, for a rule that keeps keys."""
    groups = [quoted(name) for name in rule.by]
    order = "struct(_time, _offset, _partition)"
    columns = []
    for name, expression in rule.select.items():
        kind, argument = aggregate(expression)
        made = f"max_by({argument}, {order})" if kind == "latest" else f"{kind}({argument})"
        columns.append(f"{made} AS {quoted(name)}")
    columns.append(f"max({order}) AS {ORDER}")
    return f"SELECT {', '.join(groups + columns)}\n{_rows_of(rule)}\nGROUP BY {', '.join(groups)}"


def aggregate(expression: str) -> tuple[str, str]:
    """Return function and argument of a column of a rule that keeps keys; else ValueError."""
    found = _AGGREGATE.fullmatch(expression)
    if found is None:
        raise ValueError(
            f"{expression!r} is not sum(...), count(...), min(...), max(...) or latest(...)"
        )
    kind, argument = found[1].lower(), found[2].strip()
    if argument.upper().startswith("DISTINCT "):
        raise ValueError(f"{expression!r}: DISTINCT needs a window")
    return kind, argument


def merge_sql(rule: RuleSpec, types: Mapping[str, str], new: str, old: str) -> str:
    """Return the SQL that adds new sums of some keys to the old ones, with the new types."""
    columns = [f"n.{quoted(name)}" for name in rule.by]
    for name, expression in rule.select.items():
        merged = _MERGED[aggregate(expression)[0]].format(c=quoted(name))
        columns.append(f"CAST({merged} AS {types[name]}) AS {quoted(name)}")
    columns.append(f"greatest(o.{ORDER}, n.{ORDER}) AS {ORDER}")
    same = " AND ".join(f"o.{quoted(name)} <=> n.{quoted(name)}" for name in rule.by)
    return f"SELECT {', '.join(columns)} FROM {new} n LEFT JOIN {old} o ON {same}"  # noqa: S608


def score_sql(score: ScoreSpec, rules: Iterable[RuleSpec]) -> str:
    """Return the SQL of a score over the results of the rules that give points to it."""
    start, end = WINDOW_COLUMNS
    columns = f"{start}, {end}, {quoted(score.by)}"
    parts = [
        f"SELECT {columns}, CAST({rule.points[score.name]} AS DOUBLE) AS points, "  # noqa: S608
        f"'{rule.name}' AS rule FROM {rule.name}"
        for rule in rules
        if score.name in rule.points
    ]
    return (
        f"SELECT {columns}, sum(points) AS score, "
        "array_sort(collect_set(rule)) AS rules\n"
        f"FROM ({' UNION ALL '.join(parts)})\nGROUP BY {columns}\n"
        f"HAVING sum(points) >= {score.threshold}"
    )


def _rows_of(rule: RuleSpec) -> str:
    """Return FROM, joins and WHERE."""
    text = f"FROM {rule.sources[0]}"
    if rule.join:
        text += f"\n{rule.join}"
    return text + (f"\nWHERE {rule.where}" if rule.where else "")
