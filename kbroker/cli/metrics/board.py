"""The Grafana board of brokers, as the JSON that Grafana imports.

Pure. `panels` has what is shown; here is how Grafana wants it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbroker.cli.metrics.panels import ROWS, Panel, Query

Json = dict[str, Any]

_SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS = 24  # of a board
_NUMBER_WIDTH, _NUMBER_HEIGHT = 3, 4
_CHART_WIDTH, _CHART_HEIGHT = 8, 8
_STANDS_FOR = {
    "BROKER": 'job="$job",instance=~"$broker"',
    "TOPIC": 'topic=~"$topic"',
    "GROUP": 'consumergroup=~"$group"',
    "RATE": "$__rate_interval",
}


def board() -> Json:
    """The board, with its variables: data source, job, brokers, topics and groups."""
    return {
        "title": "kbroker",
        "uid": "kbroker",
        "tags": ["kafka", "kbroker"],
        "schemaVersion": 36,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_panels()),
    }


def expr_of(query: Query) -> str:
    """The query with the variables of the board."""
    expr = query.expr
    for word, text in _STANDS_FOR.items():
        expr = expr.replace(word, text)
    return expr


def _variables() -> Iterator[Json]:
    yield {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }
    yield _variable("job", "label_values(kafka_server_kafkaserver_brokerstate, job)")
    for name, family, label in (
        ("broker", "kafka_server_kafkaserver_brokerstate", "instance"),
        ("topic", "kafka_topic_partitions", "topic"),
        ("group", "kafka_consumergroup_members", "consumergroup"),
    ):
        values = f'label_values({family}{{job="$job"}}, {label})'
        yield {
            **_variable(name, values),
            "multi": True,
            "includeAll": True,
            "allValue": ".+",
            "current": {"text": "All", "value": "$__all"},
        }


def _variable(name: str, values: str) -> Json:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "definition": values,
        "query": {"query": values, "refId": name},
        "refresh": 2,  # as the time range changes
        "sort": 1,
    }


def _panels() -> Iterator[Json]:
    number = y = 0
    for row in ROWS:
        number += 1
        place = {"x": 0, "y": y, "w": _COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "gridPos": place, "panels": []}
        x, y, height = 0, y + 1, 0
        for panel in row.panels:
            width = _NUMBER_WIDTH if panel.is_number else _CHART_WIDTH
            if x + width > _COLUMNS:
                x, y = 0, y + height
            height = _NUMBER_HEIGHT if panel.is_number else _CHART_HEIGHT
            number += 1
            place = {"x": x, "y": y, "w": width, "h": height}
            yield {"id": number, "gridPos": place, **_shown(panel)}
            x += width
        y += height


def _shown(panel: Panel) -> Json:
    defaults: Json = {"unit": panel.unit}
    if panel.red_from is not None:
        steps = [{"color": "green", "value": None}, {"color": "red", "value": panel.red_from}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    elif not panel.is_number:
        defaults["min"] = 0
    return {
        "type": "stat" if panel.is_number else "timeseries",
        "title": panel.title,
        "description": panel.help,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _NUMBER_OPTIONS if panel.is_number else _CHART_OPTIONS,
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": _SOURCE,
                "expr": expr_of(query),
                "legendFormat": query.legend or "__auto",
            }
            for at, query in enumerate(panel.queries)
        ],
    }


_NUMBER_OPTIONS: Json = {
    "colorMode": "value",
    "graphMode": "none",
    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
}
_CHART_OPTIONS: Json = {
    "legend": {"displayMode": "list", "placement": "bottom"},
    "tooltip": {"mode": "multi", "sort": "desc"},
}
