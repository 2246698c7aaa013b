"""`kbroker cluster`: brokers, controller and leaders of a cluster; its metadata to an ensemble and
back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from kbroker.cli.cluster_copy import export_tree, import_tree
from kbroker.cli.connection import CommandError, bootstrap_option, cluster_links
from kbroker.cli.lazy_commands import CommandGroup
from kbroker.cli.output import counted, output_option, print_rows, say
from kbroker.errors import Trouble
from kbroker.protocol.messages.metadata import MetadataResponse

_COLUMNS = ("broker", "state", "address", "rack", "controller", "leads", "replicas", "leaderless")
_NO_CONTROLLER = -1
_NAMED = 10  # so many partitions without leader are named


@click.group(cls=CommandGroup)
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
    with cluster_links(bootstrap) as links:
        described = links.describe(None)
    partitions = [
        (f"{topic.name}-{partition.partition_index}", partition)
        for topic in described.topics
        for partition in topic.partitions
    ]
    rows = _rows(described, [partition for _, partition in partitions])
    print_rows(rows, _COLUMNS, output)
    leaderless = [name for name, partition in partitions if partition.leader_id < 0]
    say(
        f"cluster {described.cluster_id}, {_controller(described)}: "
        f"{counted(len(described.brokers), 'broker')}, "
        f"{counted(len(described.topics), 'topic')}, "
        f"{counted(len(partitions), 'partition')}, {len(leaderless)} without leader"
    )
    if leaderless:
        more = f" and {len(leaderless) - _NAMED} more" if len(leaderless) > _NAMED else ""
        raise CommandError(
            f"no leader: {', '.join(sorted(leaderless)[:_NAMED])}{more}", trouble=Trouble.NO_LEADER
        )


def _controller(described: MetadataResponse) -> str:
    controller_id = described.controller_id
    return "no controller" if controller_id == _NO_CONTROLLER else f"controller {controller_id}"


def _rows(
    described: MetadataResponse, partitions: Sequence[MetadataResponse.MetadataResponsePartition]
) -> list[dict[str, Any]]:
    leads = Counter(partition.leader_id for partition in partitions)
    replicas = Counter(b for partition in partitions for b in partition.replica_nodes)
    leaderless = Counter(
        b for partition in partitions if partition.leader_id < 0 for b in partition.replica_nodes
    )
    online = {broker.node_id: broker for broker in described.brokers}
    return [
        {
            "broker": broker_id,
            "state": "online" if broker_id in online else "offline",
            "address": _address(online.get(broker_id)),
            "rack": online[broker_id].rack if broker_id in online else None,
            "controller": broker_id == described.controller_id,
            "leads": leads[broker_id],
            "replicas": replicas[broker_id],
            "leaderless": leaderless[broker_id],
        }
        for broker_id in sorted({*online, *replicas})
    ]


def _address(broker: MetadataResponse.MetadataResponseBroker | None) -> str | None:
    return None if broker is None else f"{broker.host}:{broker.port}"


cluster.add_command(export_tree)
cluster.add_command(import_tree)
