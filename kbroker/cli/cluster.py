"""`kbroker cluster`: brokers, controller and leaders of a cluster; its metadata to an ensemble and
back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click

from kbroker.cli.cluster_copy import export_tree, import_tree
from kbroker.cli.connection import CommandError, ExitCode, admin_client, bootstrap_option
from kbroker.cli.output import counted, output_option, print_rows, say

_COLUMNS = ("broker", "state", "address", "rack", "controller", "leads", "replicas", "leaderless")
_NAMED = 10  # so many partitions without leader are named


@click.group()
def cluster() -> None:
    """Look at a cluster; move its metadata between a directory and ZooKeeper."""


@cluster.command("status", short_help="Show brokers, controller and leaders.")
@output_option
@bootstrap_option
def status(bootstrap: str, output: str) -> None:
    """Print one line per broker: where it listens, and how many partitions it leads and holds.

    LEADERLESS counts the partitions it holds that nobody leads. A broker that is not there but
    holds partitions is `offline`. Exit code 1 when a partition has no leader.
    """
    with admin_client(bootstrap) as client:
        described = client.describe_cluster()
        topics = client.describe_topics(None)
    partitions = [
        (f"{topic['name']}-{partition['partition_index']}", partition)
        for topic in topics
        for partition in topic["partitions"]
    ]
    rows = _rows(described, [partition for _, partition in partitions])
    print_rows(rows, _COLUMNS, output)
    leaderless = [name for name, partition in partitions if partition["leader_id"] < 0]
    say(
        f"cluster {described['cluster_id']}, {_controller(described)}: "
        f"{counted(len(described['brokers']), 'broker')}, {counted(len(topics), 'topic')}, "
        f"{counted(len(partitions), 'partition')}, {len(leaderless)} without leader"
    )
    if leaderless:
        more = f" and {len(leaderless) - _NAMED} more" if len(leaderless) > _NAMED else ""
        raise CommandError(
            f"no leader: {', '.join(sorted(leaderless)[:_NAMED])}{more}", ExitCode.ITEM_FAILED
        )


def _controller(described: Mapping[str, Any]) -> str:
    controller_id = described["controller_id"]
    return "no controller" if controller_id in (None, -1) else f"controller {controller_id}"


def _rows(
    described: Mapping[str, Any], partitions: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    leads = Counter(partition["leader_id"] for partition in partitions)
    replicas = Counter(b for partition in partitions for b in partition["replica_nodes"])
    leaderless = Counter(
        b
        for partition in partitions
        if partition["leader_id"] < 0
        for b in partition["replica_nodes"]
    )
    online = {broker["broker_id"]: broker for broker in described["brokers"]}
    return [
        {
            "broker": broker_id,
            "state": "online" if broker_id in online else "offline",
            "address": _address(online.get(broker_id)),
            "rack": online.get(broker_id, {}).get("rack"),
            "controller": broker_id == described["controller_id"],
            "leads": leads[broker_id],
            "replicas": replicas[broker_id],
            "leaderless": leaderless[broker_id],
        }
        for broker_id in sorted({*online, *replicas})
    ]


def _address(broker: Mapping[str, Any] | None) -> str | None:
    return None if broker is None else f"{broker['host']}:{broker['port']}"


cluster.add_command(export_tree)
cluster.add_command(import_tree)
