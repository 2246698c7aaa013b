"""`kbroker cluster elect`: leadership back to the first replicas, or to any that are there."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click

from kbroker.cli.arguments.completion import topic_names
from kbroker.cli.arguments.connection import bootstrap_option, cluster_links
from kbroker.cli.arguments.refusals import refuse
from kbroker.cli.arguments.topic_choice import described_topics
from kbroker.cli.shown.output import counted, output_option, print_rows, say
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.partition_requests import elect_leaders
from kbroker.client.topic_rows import rows_of
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.protocol.messages.metadata import MetadataResponse

Partition = MetadataResponse.MetadataResponsePartition
_COLUMNS = ("topic", "partition", "old_leader", "leader")
_PATIENCE_S = 5.0
_PAUSE_S = 0.1


@click.command(short_help="Let preferred, or any, replicas lead.")
@click.argument("names", nargs=-1, metavar="[TOPIC...]", shell_complete=topic_names)
@click.option(
    "--unclean",
    is_flag=True,
    help="Give partitions without a leader one that is not in sync: records may be lost.",
)
@output_option
@bootstrap_option
def elect(bootstrap: str, output: str, names: Sequence[str], unclean: bool) -> None:
    """Let the first replica of each partition lead it: of these topics, or of all.

    Prints the partitions whose leader changed. Exit code 1 when a first replica cannot lead,
    because it is not there or not in sync.
    """
    with cluster_links(bootstrap) as links:
        before = links.describe(None)
        places = _places(before, names)
        wanted = set(places) if names else None
        results = elect_leaders(links, wanted, unclean=unclean)
        held = {place for place, error in results.items() if error is None}
        leaders = _leaders_after(links, held, places) if unclean else _first(held, places)
    online = {broker.node_id for broker in before.brokers}
    failures = [
        _refusal(place, error, places.get(place), online)
        for place, error in sorted(results.items())
        if error is not None and error.code != ErrorCode.ELECTION_NOT_NEEDED
    ]
    rows = [_row(place, places.get(place), leaders.get(place)) for place in sorted(held)]
    print_rows(rows, _COLUMNS, output)
    needless = len(places) - len(held) - len(failures)
    had = "had a leader" if unclean else "had the right leader"
    say(f"{counted(len(held), 'leader')} elected, {counted(needless, 'partition')} {had} before")
    if unclean and held:
        say("records may be lost: who leads now was perhaps not in sync")
    is_leaderless = any(
        error is not None and place in places and places[place].leader_id <= NO_LEADER
        for place, error in results.items()
    )
    refuse(failures, Trouble.NO_LEADER if is_leaderless else None)


def _places(described: MetadataResponse, names: Collection[str]) -> dict[TopicPartition, Partition]:
    """Return the partitions of these topics, or of all; refuses topics that are not there."""
    return dict(rows_of(described_topics(described.topics, names).values()))


def _first(
    held: Collection[TopicPartition], places: Mapping[TopicPartition, Partition]
) -> dict[TopicPartition, int]:
    return {place: places[place].replica_nodes[0] for place in held if place in places}


def _leaders_after(
    links: ClusterLinks,
    held: Collection[TopicPartition],
    places: Mapping[TopicPartition, Partition],
) -> dict[TopicPartition, int]:
    """Return the new leaders, of which a broker may hear a moment later."""
    give_up_s = time.monotonic() + _PATIENCE_S
    topics = sorted({place.topic for place in held if place in places})
    while True:
        leaders = {
            place: partition.leader_id
            for place, partition in _places(links.describe(topics), topics).items()
            if place in held and partition.leader_id > NO_LEADER
        }
        if len(leaders) == len(held) or time.monotonic() > give_up_s:
            return leaders
        links.sleep(_PAUSE_S)


def _row(place: TopicPartition, before: Partition | None, leader: int | None) -> dict[str, Any]:
    old = None if before is None or before.leader_id <= NO_LEADER else before.leader_id
    return {**place._asdict(), "old_leader": old, "leader": leader}


def _refusal(
    place: TopicPartition, error: KafkaError, known: Partition | None, online: Collection[int]
) -> str:
    if known is not None and error.code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE:
        first = known.replica_nodes[0]
        if first not in online:
            return f"{place}: broker {first}, its first replica, is not there"
        return f"{place}: broker {first}, its first replica, is not in sync"
    if known is not None and error.code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE:
        kind = "broker" if len(known.replica_nodes) == 1 else "brokers"
        brokers = ", ".join(map(str, known.replica_nodes))
        return f"{place}: none of its replicas is there ({kind} {brokers})"
    return f"{place}: {error}"
