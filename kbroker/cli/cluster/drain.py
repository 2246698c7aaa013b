"""`kbroker cluster drain`: moves all replicas of a broker to the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import click

from kbroker.cli.arguments.connection import bootstrap_option, cluster_links
from kbroker.cli.arguments.refusals import no_such_broker, refuse
from kbroker.cli.cluster.partition_moves import (
    LOOK_AT_THEM,
    MOVE_COLUMNS,
    Replicas,
    begin_moves,
    move_rows,
    replicas_of,
    wait_for_moves,
)
from kbroker.cli.shown.output import counted, named, output_option, print_rows, say
from kbroker.client.drain_plan import plan_drain
from kbroker.client.partition_requests import moves_under_way
from kbroker.client.topic_rows import rows_of
from kbroker.errors import Trouble
from kbroker.model import NO_LEADER, ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.metadata import MetadataResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drain:
    """`targets` are moves to begin, `leaving` those that had begun before; `failures` says which
    replicas have to stay, `trouble` points to more about that.
    """

    replicas: Replicas
    targets: Replicas
    leaving: Replicas
    failures: list[str]
    trouble: Trouble | None


@click.command(short_help="Move all replicas of a broker to the others.")
@click.argument("broker", type=int)
@click.option("--dry-run", is_flag=True, help="Only show what would move.")
@click.option("--wait", is_flag=True, help="Wait until the moves are over.")
@output_option
@bootstrap_option
def drain(bootstrap: str, output: str, broker: int, dry_run: bool, wait: bool) -> None:
    """Move all replicas of BROKER to the others, while clients go on: then it can be taken out of
    the cluster.

    Replicas go where the fewest are, into other racks than those the partition is in, as long as
    there are any. A broker that is down is drained, too. Exit code 1 when a replica has to stay.
    Stop the broker soon: new topics may get replicas on it until then.
    """
    with cluster_links(bootstrap) as links:
        moving = moves_under_way(links)  # first: one that ends meanwhile is described at its end
        described = links.describe(None)
        _check_known(described, broker)
        work = _planned(moving, described, broker)
        begun, refusals = (work.targets, []) if dry_run else begin_moves(links, work.targets)
        print_rows(move_rows(work.replicas, begun), MOVE_COLUMNS, output)
        failures = [*work.failures, *refusals]
        if dry_run and begun:
            say("nothing was moved: leave out --dry-run to do it")
        elif wait and not dry_run and (begun or work.leaving):
            failures += wait_for_moves(links, {**work.leaving, **begun})
        elif begun or work.leaving:
            count = len(begun) + len(work.leaving)
            leave = "leaves" if count == 1 else "leave"
            say(f"{counted(count, 'partition')} {leave} broker {broker}; {LOOK_AT_THEM}")
    is_done = wait and not dry_run
    if not failures and (is_done or not (begun or work.leaving)):
        say(_empty(broker, {each.node_id for each in described.brokers}))
    refuse(failures, work.trouble)


def _check_known(described: MetadataResponse, broker: int) -> None:
    """Refuse an id that no broker has; a broker that is down is known by its replicas."""
    online = {each.node_id for each in described.brokers}
    holders = {each for replicas in replicas_of(described).values() for each in replicas}
    if broker not in online | holders:
        refuse([no_such_broker(broker, online, holders - online)])


def _planned(
    moving: Mapping[TopicPartition, ReplicaAssignment], described: MetadataResponse, broker: int
) -> _Drain:
    replicas = replicas_of(described)
    ahead = {  # where moves under way will have ended
        place: _without(each, moving[place].removing_replicas) if place in moving else each
        for place, each in replicas.items()
    }
    brokers = {each.node_id: each.rack for each in described.brokers}
    leaderless = _leaderless(described, broker)
    plan = plan_drain(broker, ahead, brokers, leaderless)
    no_place = (
        "every other broker has a replica (add a broker, or give the topic fewer replicas with "
        "`kbroker cluster reassign`)"
        if set(brokers) - {broker}
        else "no other broker is there"
    )
    return _Drain(
        replicas=replicas,
        targets=plan.targets,
        leaving={
            place: ahead[place]
            for place, each in replicas.items()
            if broker in each and broker not in ahead[place] and place not in leaderless
        },
        failures=[
            f"{named(places)} {'stays' if len(places) == 1 else 'stay'}: {reason}"
            for places, reason in (
                (plan.stuck, no_place),
                (sorted(leaderless), "there is no leader to copy from"),
            )
            if places
        ],
        trouble=Trouble.NO_LEADER if leaderless else None,
    )


def _without(replicas: Sequence[int], others: Collection[int]) -> tuple[int, ...]:
    return tuple(broker for broker in replicas if broker not in others)


def _leaderless(described: MetadataResponse, broker: int) -> set[TopicPartition]:
    """Return the partitions of the broker that have no leader to copy them from."""
    return {
        place
        for place, row in rows_of(described.topics)
        if broker in row.replica_nodes and row.leader_id <= NO_LEADER
    }


def _empty(broker: int, online: Collection[int]) -> str:
    where = "it can be stopped" if broker in online else "it is not in the cluster now"
    return f"broker {broker} holds no replicas: {where}"
