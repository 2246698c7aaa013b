"""`kbroker top --once`: two looks at a cluster, printed as tables or as JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from kbroker.cli.shown.output import print_rows, say
from kbroker.cli.top.look import NOT_ASKED, Look
from kbroker.cli.top.tables import BROKERS, CONNECTIONS, GROUPS, TOPICS, Table
from kbroker.cli.top.wanted import Wanted
from kbroker.cli.top.watch import AskConnections, Watch
from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.console.rates import BrokerRate, GroupRate, TopicRate


def look_once(bootstrap: str, interval_s: float, connections: AskConnections | None) -> Look:
    """Take two looks, so many seconds apart, and return the second. Raises ClientError."""

    async def look() -> Look:
        cluster = ConsoledCluster(bootstrap)
        watch = Watch(cluster, interval_s, connections)
        try:
            await watch.look()
            await asyncio.sleep(interval_s)
            return await watch.look()
        finally:
            cluster.close()

    return asyncio.run(look())


def print_tables(look: Look, wanted: Wanted) -> None:
    """Print a look as tables, and on standard error what it lacks."""
    shown = [(table, rows) for table, rows in wanted.tables(look) if rows]
    for number, (table, rows) in enumerate(shown):
        if number:
            click.echo()
        _print_table(table, rows)
    for gap in _gaps(look):
        say(gap)


def _print_table(table: Table, rows: Sequence[Any]) -> None:
    columns = {column.head: column for column in table.columns}
    texts = [
        {head: column.text(row) for head, column in columns.items()}
        for row in table.ordered(rows, table.sorts_by, is_reversed=False)
    ]
    print_rows(texts, list(columns), "table")


def print_json(look: Look, wanted: Wanted) -> None:
    """Print a look as one JSON object, with figures as they are."""
    rows = {table.title: found for table, found in wanted.tables(look)}
    value = {
        "cluster_id": look.sample.cluster_id,
        "seconds": _rounded(look.seconds),
        "topics": [_topic(row) for row in rows[TOPICS.title]],
        "groups": [_group(row) for row in rows[GROUPS.title]],
        "brokers": [_broker(row) for row in rows[BROKERS.title]],
        "connections": None if look.connections is NOT_ASKED else rows[CONNECTIONS.title],
        "gaps": _gaps(look),
    }
    click.echo(json.dumps(value, indent=2))  # in ASCII, which no terminal takes for a command


def _gaps(look: Look) -> list[str]:
    asked = () if look.connections is NOT_ASKED else look.connections.gaps
    return [*look.sample.gaps, *asked]


def _topic(row: TopicRate) -> Mapping[str, Any]:
    return {
        "topic": row.topic.name,
        "partitions": row.topic.partitions,
        "leaderless": row.topic.leaderless,
        "under_replicated": row.topic.under_replicated,
        **_written(row),
    }


def _broker(row: BrokerRate) -> Mapping[str, Any]:
    return {
        "broker": row.broker.broker_id,
        "host": row.broker.host,
        "port": row.broker.port,
        "rack": row.broker.rack,
        "controller": row.broker.is_controller,
        "leaders": row.leaders,
        "replicas": row.broker.replicas,
        "silent": row.broker.silent,
        **_written(row),
    }


def _written(row: TopicRate | BrokerRate) -> Mapping[str, Any]:
    return {
        "records_per_s": _rounded(row.records_per_s),
        "bytes_per_s": _rounded(row.bytes_per_s),
        "size_bytes": row.size_bytes,
    }


def _group(row: GroupRate) -> Mapping[str, Any]:
    behind = row.most_behind
    return {
        "group": row.group.name,
        "state": row.group.state or None,
        "members": row.group.members,
        "coordinator": row.group.coordinator,
        "lag": row.lag,
        "read_per_s": _rounded(row.read_per_s),
        "written_per_s": _rounded(row.written_per_s),
        "pace": row.pace.value,
        "catch_up_s": _rounded(row.catch_up_s),
        "most_behind": None if behind is None else behind._asdict(),
    }


def _rounded(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 3)
