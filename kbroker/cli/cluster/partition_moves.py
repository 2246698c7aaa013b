"""Moves of partitions as commands begin them, show them and wait for them."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kbroker.cli.shown.output import counted, say
from kbroker.cli.shown.progress import CountedProgress
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.partition_requests import move_partitions, moves_under_way
from kbroker.client.topic_rows import rows_of
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.metadata import MetadataResponse

Replicas = Mapping[TopicPartition, tuple[int, ...]]
MOVE_COLUMNS = ("topic", "partition", "replicas", "target")
LOOK_AT_THEM = "`kbroker cluster reassign --list` shows moves, `--cancel` calls them off"
_PAUSE_S = 0.3
NO_ANSWER_S = 30.0  # a controller that stops has its successor before
SHOWN_S = 5.0  # from the end of a move until the broker that is asked knows of it


def replicas_of(described: MetadataResponse) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of each partition; while it moves, those that come and go as well."""
    return {place: tuple(row.replica_nodes) for place, row in rows_of(described.topics)}


def move_rows(replicas: Replicas, targets: Replicas) -> list[dict[str, Any]]:
    return [
        {
            **place._asdict(),
            "replicas": list(replicas.get(place, ())),
            "target": list(target),
        }
        for place, target in sorted(targets.items())
    ]


def begin_moves(
    links: ClusterLinks, targets: Replicas
) -> tuple[dict[TopicPartition, tuple[int, ...]], list[str]]:
    """Begin moves. Returns those that have begun, and a sentence for each that was refused."""
    if not targets:
        return {}, []
    results = move_partitions(links, targets)
    begun = {place: target for place, target in targets.items() if results.get(place) is None}
    return begun, [
        f"{place} does not move: {error}" for place, error in sorted(results.items()) if error
    ]


def wait_for_moves(links: ClusterLinks, targets: Replicas) -> list[str]:
    """Wait until none of these partitions moves; returns a sentence for each that has not arrived.

    Ctrl-C ends the wait, not the moves, and a line says so. Raises OSError, KafkaError, ClientError
    if the controller has not answered for a while.
    """
    try:
        return _waited_for(links, targets)
    except KeyboardInterrupt:
        say(f"interrupted: what has begun to move goes on; {LOOK_AT_THEM}")
        raise


def _waited_for(links: ClusterLinks, targets: Replicas) -> list[str]:
    wait_until_none_moves(links, targets)
    give_up_s = time.monotonic() + SHOWN_S
    while True:
        there = replicas_of(links.describe(sorted({place.topic for place in targets})))
        elsewhere = [place for place in sorted(targets) if there.get(place) != targets[place]]
        if not elsewhere or time.monotonic() > give_up_s:
            break
        links.sleep(_PAUSE_S)
    arrived = len(targets) - len(elsewhere)
    say(f"{counted(arrived, 'partition')} {'has' if arrived == 1 else 'have'} moved")
    return [_not_arrived(place, there.get(place), targets[place]) for place in elsewhere]


def wait_until_none_moves(links: ClusterLinks, places: Collection[TopicPartition]) -> None:
    """Wait until none of these partitions moves, with a line of progress on a terminal.

    Raises what `wait_for_moves` raises.
    """
    progress = CountedProgress("partitions moved")
    answered_s = time.monotonic()
    try:
        while True:
            try:
                moving = set(places) & set(moves_under_way(links))
            except (OSError, KafkaError, ClientError):
                if time.monotonic() > answered_s + NO_ANSWER_S:
                    raise
            else:
                answered_s = time.monotonic()
                if not moving:
                    return
                progress.show(len(places) - len(moving), len(places))
            links.sleep(_PAUSE_S)
    finally:
        progress.end()


def _not_arrived(place: TopicPartition, there: Sequence[int] | None, target: Sequence[int]) -> str:
    if there is None:
        return f"{place} is gone: its topic was deleted"
    brokers, wanted = (", ".join(map(str, each)) for each in (there, target))
    return f"{place} is on brokers {brokers}, not {wanted}: its move was changed or called off"
