"""Reads files with replicas by partition, in the format of kafka-reassign-partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeGuard

import click

from kbroker.model import TopicPartition

_VERSION = 1
_ANY = "any"
_EXAMPLE = '{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}'


def read_plan(path: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of each partition in a file. UsageError if it has none."""
    try:
        plan = json.loads(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--file '{path}' is not text in UTF-8") from error
    except ValueError as error:
        raise click.UsageError(f"--file '{path}' is not JSON: {error}") from error
    except OSError as error:
        raise click.UsageError(f"--file '{path}': {error}") from error
    try:
        return _parsed(plan)
    except ValueError as error:
        raise click.UsageError(f"--file '{path}': {error}") from error


def _parsed(plan: Any) -> dict[TopicPartition, tuple[int, ...]]:
    rows = plan.get("partitions") if isinstance(plan, dict) else None
    if not isinstance(rows, list):
        raise ValueError('a plan looks like {"version": 1, "partitions": [...]}')
    if plan.get("version", _VERSION) != _VERSION:
        raise ValueError(f"version {plan['version']} of plans is not known, only {_VERSION}")
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for row in rows:
        place, replicas = _entry(row)
        if place in found:
            raise ValueError(f"{place} is in it twice")
        found[place] = replicas
    if not found:
        raise ValueError("it names no partition")
    return found


def _entry(row: Any) -> tuple[TopicPartition, tuple[int, ...]]:
    fields = row if isinstance(row, dict) else {}
    topic, number = fields.get("topic"), fields.get("partition")
    replicas = fields.get("replicas")
    if not isinstance(topic, str) or not _is_id(number) or not isinstance(replicas, list):
        raise ValueError(f"{json.dumps(row)} is not like {_EXAMPLE}")
    place = TopicPartition(topic, number)
    if not all(map(_is_id, replicas)):
        raise ValueError(f"{place}: replicas are ids of brokers, such as [1, 2, 3]")
    check_replicas(str(place), replicas)
    if any(directory != _ANY for directory in fields.get("log_dirs") or ()):
        raise ValueError(f'{place}: log_dirs other than "{_ANY}" are for kafka-reassign-partitions')
    return place, tuple(replicas)


def _is_id(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def check_replicas(where: str, replicas: list[int]) -> None:
    """Raise ValueError if no partition can have these replicas."""
    if not replicas:
        raise ValueError(f"{where}: it needs one broker at least")
    twice = sorted({broker for broker in replicas if replicas.count(broker) > 1})
    if twice:
        raise ValueError(f"{where}: broker {twice[0]} is in it twice")
