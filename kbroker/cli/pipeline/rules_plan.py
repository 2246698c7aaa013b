"""Prints the plan of `kbroker pipeline rules --dry-run`: inputs, tables, rules, scores, and topics.

Without Spark: a run checks the SQL when it begins.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from kbroker.cli.arguments.connection import link_errors
from kbroker.cli.shown.output import counted, print_rows, say
from kbroker.client.cluster_links import ClusterLinks
from kbroker.pipeline.jobs.rules import RulesPlan
from kbroker.pipeline.rule_jobs.rule_spec import WINDOW_COLUMNS, RuleSpec, RulesSpec

_COLUMNS = ("kind", "name", "from", "window", "columns", "to")


def print_rules_plan(plan: RulesPlan, output: str) -> None:
    """Raises PipelineError and CommandError if the cluster cannot be asked."""
    spec, source = plan.spec, plan.source
    source.earliest()
    with link_errors(source.bootstrap), closing(ClusterLinks(source.cluster)) as links:
        missing = [name for name in spec.output_topics() if links.ready_topic(name) is None]
    print_rows(_rows(spec), _COLUMNS, output)
    for name, topic in spec.output_topics().items():
        if name in missing:
            settings = [f"{key}={value}" for key, value in topic.settings.items()]
            if topic.partitions > 0:
                settings.insert(0, counted(topic.partitions, "partition"))
            say(f"topic {name} would be made{': ' if settings else ''}{', '.join(settings)}")


def _rows(spec: RulesSpec) -> list[dict[str, Any]]:
    found = [
        _row("input", each.name, ",".join(each.topics), ", ".join(each.columns))
        for each in spec.inputs.values()
    ]
    found += [
        _row("table", each.name, each.path or f"topic {each.topic}", ", ".join(each.columns))
        for each in spec.tables.values()
    ]
    found += [
        _row("rule", rule.name, ",".join(rule.sources), _columns(rule))
        | {"window": _window(rule), "to": rule.to}
        for rule in spec.rules.values()
    ]
    found += [
        _row("score", score.name, ",".join(_rules_of(spec, score.name)), f"{score.by}, score")
        | {"to": score.to}
        for score in spec.scores.values()
    ]
    return found


def _row(kind: str, name: str, origin: str, columns: str | None) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": name,
        "from": origin,
        "window": None,
        "columns": columns,
        "to": None,
    }


def _rules_of(spec: RulesSpec, score: str) -> list[str]:
    return [rule.name for rule in spec.rules.values() if score in rule.points]


def _columns(rule: RuleSpec) -> str:
    if rule.sql is not None:
        return "as its SQL says"
    grouped = [*(WINDOW_COLUMNS if rule.window_us else ()), *rule.by]
    return ", ".join([*grouped, *(rule.select or (["count"] if grouped else ["*"]))])


def _window(rule: RuleSpec) -> str | None:
    if rule.window_us is None or rule.slide_us is None:
        return "row per key" if rule.is_update else None
    window = f"{rule.window_us / 1e6:g} s"
    return window if rule.slide_us == rule.window_us else f"{window} / {rule.slide_us / 1e6:g} s"
