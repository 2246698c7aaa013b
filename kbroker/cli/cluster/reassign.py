"""`kbroker cluster reassign`: other brokers for the replicas of partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click

from kbroker.cli.arguments.completion import topic_names
from kbroker.cli.arguments.connection import bootstrap_option, cluster_links
from kbroker.cli.arguments.refusals import brokers_named, refuse
from kbroker.cli.arguments.topic_choice import described_topics, partitions_option
from kbroker.cli.cluster.partition_moves import (
    LOOK_AT_THEM,
    MOVE_COLUMNS,
    Replicas,
    begin_moves,
    move_rows,
    replicas_of,
    wait_for_moves,
    wait_until_none_moves,
)
from kbroker.cli.cluster.reassignment_plan import check_replicas, read_plan
from kbroker.cli.shown.output import counted, output_option, print_rows, say
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.partition_requests import move_partitions, moves_under_way
from kbroker.client.unknown_names import no_such, no_such_partition
from kbroker.errors import ErrorCode, Trouble
from kbroker.model import ReplicaAssignment, TopicPartition

_LISTED = ("topic", "partition", "replicas", "adding", "removing")
_NOTHING = "no partition is moving"
_NOT_MOVING = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,)


@click.command(short_help="Move partitions to other brokers.")
@click.option(
    "--topic",
    "names",
    metavar="TOPIC",
    multiple=True,
    shell_complete=topic_names,
    help="The topic to move; may be repeated.",
)
@partitions_option()
@click.option(
    "--to",
    "brokers",
    metavar="ID,ID,...",
    help="The brokers that shall hold the replicas, the preferred leader first. With several "
    "partitions each broker comes first in its turn.",
)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="JSON with the replicas of partitions, as kafka-reassign-partitions takes it.",
)
@click.option("--cancel", is_flag=True, help="Call moves off: all, or those of --topic.")
@click.option("--list", "lists", is_flag=True, help="Show the moves under way.")
@click.option("--wait", is_flag=True, help="Wait until the moves are over.")
@output_option
@bootstrap_option
def reassign(  # one parameter per option
    bootstrap: str,
    output: str,
    names: Sequence[str],
    numbers: Sequence[int],
    brokers: str | None,
    path: str | None,
    cancel: bool,
    lists: bool,
    wait: bool,
) -> None:
    """Move the replicas of partitions to other brokers, while clients go on.

    New replicas copy the records first; then the old ones are deleted. Without --wait, the command
    ends when the moves have begun. A number of brokers other than before changes the number of
    replicas.
    """
    _check_options(names, numbers, wait, (brokers, path, cancel, lists))
    target = None if brokers is None else _parse_brokers(brokers)
    plan = None if path is None else read_plan(path)
    with cluster_links(bootstrap) as links:
        if lists or cancel:
            places = _places(links, names, numbers) if names else None
            moving = {
                place: move
                for place, move in moves_under_way(links).items()
                if places is None or place in places
            }
            if lists:
                _show(moving, output)
            else:
                _call_off(links, moving, wait, output)
            return
        if plan is None:
            assert names, "checked above"
            assert target is not None, "checked above"
            plan = _spread(_places(links, names, numbers), target)
        _move(links, plan, wait, output)


def _check_options(
    names: Sequence[str], numbers: Sequence[int], wait: bool, modes: tuple[Any, Any, bool, bool]
) -> None:
    brokers, path, _, lists = modes
    given = sum(1 for mode in modes if mode not in (None, False))
    if given != 1:
        only = "only one" if given else "one"
        raise click.UsageError(f"give {only} of --to, --file, --cancel, --list")
    if brokers is not None and not names:
        raise click.UsageError("--to needs --topic")
    if numbers and not names:
        raise click.UsageError("--partition needs --topic")
    if numbers and len(names) > 1:
        raise click.UsageError("--partition is for one topic: give --topic once, or a --file")
    if path is not None and names:
        raise click.UsageError("--file names the topics: leave out --topic")
    if lists and wait:
        raise click.UsageError("--list waits for nothing: leave out --wait")


def _parse_brokers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise click.UsageError(f"--to '{text}' does not list broker ids, such as 1,2,3")
    replicas = [int(part) for part in parts]
    try:
        check_replicas(f"--to '{text}'", replicas)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return tuple(replicas)


def _places(
    links: ClusterLinks, names: Sequence[str], numbers: Sequence[int]
) -> list[TopicPartition]:
    """Return the partitions of the topics that are asked for; refuses what is not there."""
    known = {
        name: sorted(partition.partition_index for partition in topic.partitions)
        for name, topic in described_topics(links.describe(None).topics, names).items()
    }
    refuse(
        [
            no_such_partition(TopicPartition(name, number), len(known[name]))
            for name in known
            for number in sorted(set(numbers) - set(known[name]))
        ]
    )
    return [
        TopicPartition(name, number)
        for name in known
        for number in sorted(set(numbers) or known[name])
    ]


def _spread(
    places: Sequence[TopicPartition], brokers: tuple[int, ...]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Let each broker be the preferred leader of as many partitions."""
    return {
        place: brokers[turn % len(brokers) :] + brokers[: turn % len(brokers)]
        for turn, place in enumerate(places)
    }


def _move(links: ClusterLinks, plan: Replicas, wait: bool, output: str) -> None:
    described = links.describe(None)
    replicas = replicas_of(described)
    topics = {place.topic for place in replicas}
    is_unknown = any(place.topic not in topics for place in plan)
    refuse(_not_there(plan, replicas), Trouble.UNKNOWN_TOPIC if is_unknown else None)
    refuse(_brokers_away(plan, replicas, {broker.node_id for broker in described.brokers}))
    moving = moves_under_way(links)
    targets = {
        place: target
        for place, target in plan.items()
        if place in moving or replicas[place] != target
    }
    begun, failures = begin_moves(links, targets)
    print_rows(move_rows(replicas, begun), MOVE_COLUMNS, output)
    settled = len(plan) - len(targets)
    if settled:
        say(f"{counted(settled, 'partition')} had these replicas before")
    fewer = sum(p not in moving and len(begun[p]) < len(replicas[p]) for p in begun)
    if fewer:
        say(f"{counted(fewer, 'partition')} will have fewer replicas than before")
    if begun and wait:
        failures += wait_for_moves(links, begun)
    elif begun:
        say(f"{_moving(len(begun))}; {LOOK_AT_THEM}")
    refuse(failures)


def _moving(count: int) -> str:
    return f"{counted(count, 'partition')} {'is' if count == 1 else 'are'} moving"


def _not_there(plan: Replicas, replicas: Replicas) -> list[str]:
    counts: dict[str, int] = {}
    for place in replicas:
        counts[place.topic] = counts.get(place.topic, 0) + 1
    topics = sorted({place.topic for place in plan} - set(counts))
    return [no_such("topic", name, counts) for name in topics] + [
        no_such_partition(place, counts[place.topic])
        for place in sorted(plan)
        if place.topic in counts and place not in replicas
    ]


def _brokers_away(plan: Replicas, replicas: Replicas, online: Collection[int]) -> list[str]:
    """Say which brokers are away and would get new replicas; they may keep those they have."""
    away = {
        broker
        for place, target in plan.items()
        for broker in target
        if broker not in online and broker not in replicas[place]
    }
    there = f"online: {brokers_named(online)}"
    return [f"broker {each} is not in the cluster ({there})" for each in sorted(away)]


def _show(moving: Mapping[TopicPartition, ReplicaAssignment], output: str) -> None:
    rows = [
        {
            **place._asdict(),
            "replicas": list(move.replicas),
            "adding": list(move.adding_replicas),
            "removing": list(move.removing_replicas),
        }
        for place, move in sorted(moving.items())
    ]
    print_rows(rows, _LISTED, output)
    if not rows:
        say(_NOTHING)


def _call_off(
    links: ClusterLinks,
    moving: Mapping[TopicPartition, ReplicaAssignment],
    wait: bool,
    output: str,
) -> None:
    """Cancel moves; what has arrived meanwhile stays there."""
    results = move_partitions(links, dict.fromkeys(moving)) if moving else {}
    over = {place for place, error in results.items() if error and error.code in _NOT_MOVING}
    failures = [
        f"{place}: its move was not called off: {error}"
        for place, error in sorted(results.items())
        if error is not None and place not in over
    ]
    back = {
        place: tuple(b for b in move.replicas if b not in move.adding_replicas)
        for place, move in moving.items()
        if results.get(place) is None
    }
    rows = move_rows({place: move.replicas for place, move in moving.items()}, back)
    print_rows(rows, MOVE_COLUMNS, output)
    say(f"{counted(len(back), 'move')} called off" if moving else _NOTHING)
    if back and wait:
        wait_until_none_moves(links, back)
    refuse(failures)
