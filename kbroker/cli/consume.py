"""`kbroker consume`: prints the records of a topic, from a place to the end or for as long as it is
left running.

With --group the client library reads, for it knows how to be a member; else the project's own
fetcher does, which is faster.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import click

from kbroker.cli.connection import (
    CommandError,
    ExitCode,
    bootstrap_option,
    client_errors,
    link_errors,
)
from kbroker.cli.output import counted, say
from kbroker.cli.record_printer import RecordPrinter
from kbroker.cli.terminal_line import TerminalLine
from kbroker.cli.time_argument import milliseconds_ago
from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks, TopicView
from kbroker.client.connection import client_options
from kbroker.client.library_consumer import library_consumer
from kbroker.client.record_fetcher import RecordFetcher
from kbroker.errors import Trouble
from kbroker.record.default_record import Record

_POLL_MS = 200
_FIRST_SHOWN_S = 0.5

Batches = Iterable[tuple[int, list[Record]]]
"""Partitions and records of them, as they come."""


@click.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    default="start",
    show_default=True,
    metavar="start|end|-1h|OFFSET",
    help="Where to begin.",
)
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("--follow", is_flag=True, help="Keep waiting for new records.")
@click.option(
    "--partition",
    "partitions",
    type=int,
    multiple=True,
    help="Only this partition; may be repeated.",
)
@click.option("--group", help="Join this consumer group, begin at its offsets and commit them.")
@click.option(
    "--output",
    type=click.Choice(["table", "json", "jsonl", "csv"]),
    default="table",
    show_default=True,
    help="table prints values only; the others print key, value, headers, timestamp and place.",
)
@bootstrap_option
def consume(  # one parameter per option
    bootstrap: str,
    topic: str,
    start: str,
    count: int | None,
    follow: bool,
    partitions: Sequence[int],
    group: str | None,
    output: str,
) -> None:
    """Print the records of TOPIC; without --follow, up to the end as it is now."""
    place = _parse_start(start)
    if group is not None and partitions:
        raise click.UsageError(
            "--group and --partition exclude each other: the group shares out the partitions"
        )
    with link_errors(bootstrap), closing(ClusterLinks(bootstrap)) as cluster:
        view = _topic(cluster, topic, partitions)
        if group is None:
            positions = _positions(cluster, view, partitions or list(view.leaders), place)
            ends = None if follow else cluster.offsets(view, list(positions), LATEST)
            fetcher = RecordFetcher(cluster, view, positions, ends, say)
            _print(fetcher.batches(), topic, count, RecordPrinter(output, sys.stdout.buffer))
            return
    with client_errors(bootstrap):
        _print_group(bootstrap, topic, group, place, follow, count, output)


def _parse_start(text: str) -> str | int:
    """`start`, `end`, an offset, or (as a negative number) milliseconds before now."""
    if text in ("start", "end"):
        return text
    ago_ms = milliseconds_ago(text)
    if ago_ms is not None:
        return -ago_ms
    if text.isdecimal():
        return int(text)
    raise click.UsageError(
        f"--from '{text}' is none of: start, end, an offset, "
        "or a time ago such as -30s, -15m, -1h, -2d"
    )


def _topic(cluster: ClusterLinks, topic: str, partitions: Sequence[int]) -> TopicView:
    view = cluster.ready_topic(topic)
    if view is None:
        raise CommandError(
            f"no such topic: {topic} (see `kbroker topic list`)", trouble=Trouble.UNKNOWN_TOPIC
        )
    unknown = sorted(set(partitions) - set(view.leaders))
    if unknown:
        raise CommandError(
            f"{topic} has no partition {unknown[0]} (it has {len(view.leaders)})",
            ExitCode.ITEM_FAILED,
        )
    return view


def _positions(
    cluster: ClusterLinks, view: TopicView, partitions: Sequence[int], place: str | int
) -> dict[int, int]:
    """The offset to begin at, by partition."""
    if place == "start":
        return cluster.offsets(view, partitions, EARLIEST)
    ends = cluster.offsets(view, partitions, LATEST)
    if not isinstance(place, int):
        return ends
    if place < 0:
        found = cluster.offsets(view, partitions, int(time.time() * 1000) + place)
        return {number: ends[number] if at < 0 else at for number, at in found.items()}
    starts = cluster.offsets(view, partitions, EARLIEST)
    if all(place > end for end in ends.values()):
        raise CommandError(
            f"--from {place} is beyond the end, {max(ends.values())}", ExitCode.ITEM_FAILED
        )
    if all(place < start for start in starts.values()):
        say(f"offset {place} is no longer there: beginning at {min(starts.values())}")
    # A partition that ends before `place` begins at its end.
    return {number: min(max(place, starts[number]), ends[number]) for number in partitions}


def _print(batches: Batches, topic: str, count: int | None, printer: RecordPrinter) -> bool:
    """Print up to `count` records; whether all were printed that there are."""
    line = TerminalLine(sys.stderr, time.monotonic() + _FIRST_SHOWN_S, plain_interval_s=None)
    is_silent = not sys.stdout.isatty()
    try:
        for partition, records in batches:
            if count is not None:
                records = records[: count - printer.printed]
            printer.print(topic, partition, records)
            if printer.printed == count:
                return False
            if is_silent and line.is_due(now_s := time.monotonic()):
                line.show(counted(printer.printed, "record"), now_s)
    except KeyboardInterrupt:
        return False  # Ctrl-C is how --follow ends
    finally:
        line.end()
        printer.end()
    return True


# As a member of a group.


def _print_group(
    bootstrap: str,
    topic: str,
    group: str,
    place: str | int,
    follow: bool,
    count: int | None,
    output: str,
) -> None:
    options: dict[str, Any] = {
        "client_id": "kbroker-cli",
        "group_id": group,
        "auto_offset_reset": "latest" if place == "end" else "earliest",
        "enable_auto_commit": False,
        "allow_auto_create_topics": False,
        "bootstrap_timeout_ms": 5_000,
    }
    consumer = library_consumer(**options | client_options(bootstrap))
    printer = RecordPrinter(output, sys.stdout.buffer)
    at_end = False
    try:
        consumer.subscribe([topic])
        at_end = _print(_polled(consumer, follow), topic, count, printer)
    finally:
        consumer.commit(None if at_end else _committed(topic, printer.next_offsets))
        consumer.close()


def _committed(topic: str, next_offsets: Mapping[int, int]) -> dict[Any, Any]:
    """What a group commits before the end: what was printed, not what was polled."""
    from kafka.structs import OffsetAndMetadata, TopicPartition

    return {
        TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
        for partition, offset in next_offsets.items()
    }


def _polled(consumer: Any, follow: bool) -> Iterator[tuple[int, list[Record]]]:
    """Records as they come; without `follow`, until every partition has reached the end it had at
    first.
    """
    ends: dict[Any, int] | None = None
    while True:
        for place, batch in consumer.poll(timeout_ms=_POLL_MS).items():
            yield (
                place.partition,
                [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch],
            )
        if follow:
            continue
        assigned = consumer.assignment()
        if not assigned:
            continue  # the group is still forming
        if ends is None:
            ends = consumer.end_offsets(list(assigned))
        if all(consumer.position(partition) >= ends.get(partition, 0) for partition in assigned):
            return
