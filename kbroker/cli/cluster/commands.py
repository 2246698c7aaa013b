"""`kbroker cluster`: brokers, controller and leaders of a cluster; elections; its metadata to an
ensemble and back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

from kbroker.cli.arguments.connection import CommandError, bootstrap_option, cluster_links
from kbroker.cli.cluster.copy import export_tree, import_tree
from kbroker.cli.cluster.drain import drain
from kbroker.cli.cluster.elect import elect
from kbroker.cli.cluster.features import features
from kbroker.cli.cluster.partition_states import STATE_COLUMNS, state_counts, state_rows
from kbroker.cli.cluster.protect import protect
from kbroker.cli.cluster.reassign import reassign
from kbroker.cli.lazy_commands import CommandGroup
from kbroker.cli.shown.output import counted, named, output_option, print_rows, say
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_configs import MIN_ISR, minimums_in_sync
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.partition_health import health_of
from kbroker.client.partition_requests import moves_under_way
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.model import NO_CONTROLLER, ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse

_COLUMNS = ("broker", "state", "address", "rack", "controller", "leads", "replicas", "leaderless")
_NAMED = 20  # partitions, unless all were asked for


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Look at a cluster, elect leaders, move partitions, copy its metadata into a ZooKeeper."""


@cluster.command("status", short_help="Show brokers, controller and leaders.")
@click.option(
    "--partitions",
    "names_partitions",
    is_flag=True,
    help="Print, instead of brokers, all partitions that lack something or move.",
)
@output_option
@bootstrap_option
def status(bootstrap: str, output: str, names_partitions: bool) -> None:
    """Print one line per broker: where it listens, and how many partitions it leads and holds.

    LEADERLESS counts the partitions it holds that nobody leads. A broker that is not there but
    holds partitions is `offline`; one that does not answer at the address that clients are given
    is `silent`: until the cluster notices that it is gone, its replicas count as in sync. Exit
    code 1 when a partition has no leader.

    The last line counts partitions. Under-replicated: not all replicas are in sync. Under
    min.insync.replicas: writes with acks=all are refused. Reassigning: replicas move to other
    brokers. A second table names the first 20 of them and of those without leader, the worst first.
    Other outputs have the brokers alone, or the partitions with --partitions.
    """
    with cluster_links(bootstrap) as links:
        described = links.describe(None)
        silent = _call_all(links, described)
        health = health_of(
            described.topics, _minimums(links, described), _moves(links, described.controller_id)
        )
    partitions = [partition for topic in described.topics for partition in topic.partitions]
    rows = state_rows(described.topics, health)
    if names_partitions:
        print_rows(rows, STATE_COLUMNS, output)
    else:
        print_rows(_rows(described, partitions, silent), _COLUMNS, output)
        if output == "table":
            _name_first(rows)
    for broker_id, error in sorted(silent.items()):
        say(f"broker {broker_id} does not answer: {error}")
    say(
        f"cluster {described.cluster_id}, {_controller(described)}: "
        f"{counted(len(described.brokers), 'broker')}, "
        f"{counted(len(described.topics), 'topic')}{_internal(described)}, "
        f"{counted(len(partitions), 'partition')}, {len(health.leaderless)} without leader"
    )
    say(state_counts(health))
    if silent:
        say(Trouble.ADVERTISED_ADDRESS.advice)
    if health.leaderless:
        leaderless = named(sorted(map(str, health.leaderless)))
        raise CommandError(f"no leader: {leaderless}", trouble=Trouble.NO_LEADER)


def _name_first(rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        click.echo()
        print_rows(rows[:_NAMED], STATE_COLUMNS, "table")
    if len(rows) > _NAMED:
        say(f"and {counted(len(rows) - _NAMED, 'more partition')} (all with --partitions)")


def _call_all(links: ClusterLinks, described: MetadataResponse) -> dict[int, Exception]:
    """Ask each broker for a sign of life, and return those that gave none, and why. Other requests
    might have to wait for ZooKeeper.
    """
    for broker in described.brokers:
        with suppress(OSError, ClientError, KafkaError):
            links.ask(broker.node_id, MetadataRequest(topics=[]))
    return dict(links.silent)


def _minimums(links: ClusterLinks, described: MetadataResponse) -> dict[str, int] | None:
    """Return `min.insync.replicas` by topic; None, and a line says why, if it is not known."""
    try:
        return minimums_in_sync(links, [str(topic.name) for topic in described.topics])
    except (OSError, KafkaError) as error:
        reason = error.reason if isinstance(error, KafkaError) else error
        say(f"{MIN_ISR} is not known: {reason}")
        return None


def _moves(
    links: ClusterLinks, controller_id: int
) -> dict[TopicPartition, ReplicaAssignment] | None:
    """Return the moves under way; None if no controller answers, or if it refuses, and a line says
    why.
    """
    if controller_id == NO_CONTROLLER or controller_id in links.silent:
        return None
    try:
        return moves_under_way(links, controller_id)
    except (OSError, KafkaError) as error:
        if isinstance(error, KafkaError) and error.code == ErrorCode.NOT_CONTROLLER:
            say(
                f"broker {controller_id} is named as controller and does not act as one now (its "
                "log says why), so that it is not known which partitions are reassigning"
            )
        else:
            say(f"broker {controller_id} does not say which partitions are reassigning: {error}")
        return None


def _internal(described: MetadataResponse) -> str:
    count = sum(topic.is_internal for topic in described.topics)
    return f" ({count} internal)" if count else ""


def _controller(described: MetadataResponse) -> str:
    controller_id = described.controller_id
    return "no controller" if controller_id == NO_CONTROLLER else f"controller {controller_id}"


def _rows(
    described: MetadataResponse,
    partitions: Sequence[MetadataResponse.MetadataResponsePartition],
    silent: Collection[int],
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
            "state": _state(broker_id in online, broker_id in silent),
            "address": _address(online.get(broker_id)),
            "rack": online[broker_id].rack if broker_id in online else None,
            "controller": broker_id == described.controller_id,
            "leads": leads[broker_id],
            "replicas": replicas[broker_id],
            "leaderless": leaderless[broker_id],
        }
        for broker_id in sorted({*online, *replicas})
    ]


def _state(is_registered: bool, is_silent: bool) -> str:
    if not is_registered:
        return "offline"
    return "silent" if is_silent else "online"


def _address(broker: MetadataResponse.MetadataResponseBroker | None) -> str | None:
    return None if broker is None else f"{broker.host}:{broker.port}"


cluster.add_command(elect)
cluster.add_command(features)
cluster.add_command(reassign)
cluster.add_command(drain)
cluster.add_command(export_tree)
cluster.add_command(import_tree)
cluster.add_command(protect)
