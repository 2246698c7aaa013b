"""The configuration of Prometheus' jmx_exporter that its example for Kafka amounts to, put together
from what its rules do: which beans they take, and which names, types and labels they make of them.
The first rule that fits a bean's attribute counts.
"""

from __future__ import annotations

import json
from typing import Any

_PROPERTY = ", (.+)=(.+)"
_FIRST_FREE = 4  # domain, type and name come before
Rule = dict[str, Any]


def configuration() -> str:
    """The text of a configuration file: JSON, which is YAML."""
    return json.dumps({"lowercaseOutputName": True, "rules": _rules()}, indent=1)


def _rules() -> list[Rule]:
    return [
        _with_labels("GAUGE", "kafka_server_$1_$2", "Value",
                     ("clientId", "topic", "partition"), last="(.*)"),
        _of_fetchers(),
        {"pattern": r"kafka.coordinator.(\w+)<type=(.+), name=(.+)><>Value",
         "name": "kafka_coordinator_$1_$2_$3", "type": "GAUGE"},
        *(_general(r"PerSec\w*", "Count", "_total", "COUNTER", count) for count in (2, 1, 0)),
        *_quotas(),
        *(_general("", "Value", "", "GAUGE", count) for count in (2, 1, 0)),
        *(rule for count in (2, 1, 0) for rule in _summary(count)),
        _general(r"Percent\w*", "MeanRate", "_percent", "GAUGE", 0),
        *(_general(r"Percent\w*", "Value", "_percent", "GAUGE", count) for count in (0, 1)),
    ]  # fmt: skip


def _general(end: str, attribute: str, suffix: str, kind: str, properties: int) -> Rule:
    """Name what ends in `end` with that suffix instead; each further property becomes a label."""
    places = range(_FIRST_FREE, _FIRST_FREE + 2 * properties, 2)
    return {
        "pattern": rf"kafka.(\w+)<type=(.+), name=(.+){end}{_PROPERTY * properties}><>{attribute}",
        "name": f"kafka_$1_$2_$3{suffix}",
        "type": kind,
        "labels": {f"${at}": f"${at + 1}" for at in places},
    }


def _summary(properties: int) -> list[Rule]:
    """A histogram's count and its quantiles."""
    quantiles = _general("", r"(\d+)thPercentile", "", "GAUGE", properties)
    quantiles["labels"]["quantile"] = f"0.${_FIRST_FREE + 2 * properties}"
    return [_general("", "Count", "_count", "COUNTER", properties), quantiles]


def _with_labels(
    kind: str, name: str, attribute: str, labels: tuple[str, ...], last: str = "(.+)"
) -> Rule:
    parts = [f"{label}=(.+)" for label in labels[:-1]] + [f"{labels[-1]}={last}"]
    return {
        "pattern": f"kafka.server<type=(.+), name=(.+), {', '.join(parts)}><>{attribute}",
        "name": name,
        "type": kind,
        "labels": {label: f"${at}" for at, label in enumerate(labels, 3)},
    }


def _of_fetchers() -> Rule:
    rule = _with_labels(
        "GAUGE", "kafka_server_$1_$2", "Value", ("clientId", "brokerHost", "brokerPort")
    )
    rule["labels"] = {"clientId": "$3", "broker": "$4:$5"}
    return rule


def _quotas() -> list[Rule]:
    """Of users and client ids, of client ids, of users."""
    both, client, user = ("user", "client-id"), ("client-id",), ("user",)
    rules = []
    for names in (both, client, user):
        parts = "".join(f", {name}=(.+)" for name in names)
        labels = {
            name.replace("client-id", "clientId"): f"${at}" for at, name in enumerate(names, 2)
        }
        rules.append(
            {
                "pattern": f"kafka.server<type=(.+){parts}><>([a-z-]+)",
                "name": f"kafka_server_quota_${2 + len(names)}",
                "type": "GAUGE",
                "labels": {"resource": "$1", **labels},
            }
        )
    return rules
