"""What `kbroker pipeline rules --dry-run` prints: inputs, tables, rules, topics."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from kbroker.cli.connection import link_errors
from kbroker.cli.output import print_rows, say
from kbroker.cli.pipeline.stream_options import StreamOptions
from kbroker.client.cluster_links import ClusterLinks
from kbroker.pipeline.rules.rule_check import check_rules
from kbroker.pipeline.rules.rule_spec import RulesSpec
from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.spark_job.session import running_session

_COLUMNS = ("kind", "name", "from", "columns", "to", "state")


def print_rules_plan(spec: RulesSpec, place: str, options: StreamOptions) -> int:
    """Print the plan, with the columns that Spark finds; the exit code. Nothing is written."""
    source = options.source
    assert isinstance(source, KafkaSource)
    source.earliest()  # a topic that is not there is said before Spark takes its seconds
    with link_errors(source.bootstrap), closing(ClusterLinks(source.cluster)) as links:
        missing = [name for name in spec.output_topics() if links.ready_topic(name) is None]
    settings = options.session.settings("kbroker rules", needs_connector=False)
    with running_session(settings) as spark:
        schemas = check_rules(spark, spec, place)
    print_rows(_rows(spec, schemas), _COLUMNS, options.output)
    for name, topic in spec.output_topics().items():
        if name in missing:
            made = [f"{key}={value}" for key, value in topic.settings.items()]
            number = "" if topic.partitions < 0 else f" with {topic.partitions} partitions"
            say(f"topic {name} would be made{number}{' ' if made else ''}{', '.join(made)}")
    return 0


def _rows(spec: RulesSpec, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    found = [
        _row("input", each.name, ",".join(each.topics), each.schema)
        for each in spec.inputs.values()
    ]
    found += [
        _row("table", each.name, each.path or f"topic {each.topic}", each.schema)
        for each in spec.tables.values()
    ]
    for rule in spec.rules.values():
        row = _row("rule", rule.name, ",".join(rule.sources), _text(schemas[rule.name]))
        found.append(row | {"to": rule.to, "state": "by key" if rule.is_update else None})
        if rule.window_us is not None:
            found[-1]["state"] = f"window {rule.window_us / 1e6:g} s"
    for score in spec.scores.values():
        row = _row("score", score.name, None, _text(schemas[score.name]))
        found.append(row | {"to": score.to})
    return found


def _row(kind: str, name: str, origin: str | None, columns: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": name,
        "from": origin,
        "columns": columns.replace("`", ""),
        "to": None,
        "state": None,
    }


def _text(schema: Any) -> str:
    return ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in schema.fields)
