"""`kbroker consume`: prints the records of a topic, from a place to the end or for as long as it is
left running.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import click

from kbroker.cli.connection import CommandError, ExitCode, bootstrap_option, client_errors
from kbroker.cli.output import say
from kbroker.cli.record_rows import headers_of, text_of
from kbroker.cli.time_argument import milliseconds_ago

_POLL_MS = 200


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
    from kafka import KafkaConsumer

    printer = _Printer(output)
    at_end = False
    with client_errors(bootstrap):
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            client_id="kbroker-cli",
            group_id=group,
            auto_offset_reset="latest" if place == "end" else "earliest",
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            bootstrap_timeout_ms=5_000,
        )
        try:
            _position(consumer, topic, partitions, place, group)
            for number, record in enumerate(_records(consumer, follow), start=1):
                printer.print(record)
                if number == count:
                    break
            else:
                at_end = True
        except KeyboardInterrupt:
            pass  # Ctrl-C is how --follow ends
        finally:
            if group is not None:
                consumer.commit(None if at_end else printer.positions())
            printer.end()
            consumer.close()


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


def _position(
    consumer: Any, topic: str, partitions: Sequence[int], place: str | int, group: str | None
) -> None:
    from kafka.structs import TopicPartition

    known = consumer.partitions_for_topic(topic)
    if not known:
        raise CommandError(
            f"no such topic: {topic} (see `kbroker topic list`)", ExitCode.ITEM_FAILED
        )
    unknown = sorted(set(partitions) - set(known))
    if unknown:
        raise CommandError(
            f"{topic} has no partition {unknown[0]} (it has {len(known)})", ExitCode.ITEM_FAILED
        )
    if group is not None:
        consumer.subscribe([topic])
        return
    assigned = [TopicPartition(topic, number) for number in sorted(partitions or known)]
    consumer.assign(assigned)
    if place == "end":
        consumer.seek_to_end(*assigned)
    elif isinstance(place, int) and place < 0:
        _seek_to_time(consumer, assigned, int(time.time() * 1000) + place)
    elif isinstance(place, int):
        _seek_to_offset(consumer, assigned, place)
    else:
        consumer.seek_to_beginning(*assigned)


def _seek_to_offset(consumer: Any, assigned: Sequence[Any], offset: int) -> None:
    """Begin at `offset` where there is one; a partition that ends before it begins at its end."""
    starts, ends = consumer.beginning_offsets(assigned), consumer.end_offsets(assigned)
    if all(offset > ends[partition] for partition in assigned):
        raise CommandError(
            f"--from {offset} is beyond the end, {max(ends.values())}", ExitCode.ITEM_FAILED
        )
    if all(offset < starts[partition] for partition in assigned):
        say(f"offset {offset} is no longer there: beginning at {min(starts.values())}")
    for partition in assigned:
        consumer.seek(partition, min(max(offset, starts[partition]), ends[partition]))


def _seek_to_time(consumer: Any, assigned: Sequence[Any], timestamp_ms: int) -> None:
    found = consumer.offsets_for_times(dict.fromkeys(assigned, timestamp_ms))
    for partition in assigned:
        if found.get(partition) is None:
            consumer.seek_to_end(partition)
        else:
            consumer.seek(partition, found[partition].offset)


def _records(consumer: Any, follow: bool) -> Iterator[Any]:
    """Records as they come; without `follow`, until every partition has reached the end it had at
    first.
    """
    ends: dict[Any, int] | None = None
    while True:
        polled = consumer.poll(timeout_ms=_POLL_MS)
        for batch in polled.values():
            yield from batch
        if follow:
            continue
        assigned = consumer.assignment()
        if not assigned:
            continue  # the group is still forming
        if ends is None:
            ends = consumer.end_offsets(list(assigned))
        if all(consumer.position(partition) >= ends.get(partition, 0) for partition in assigned):
            return


class _Printer:
    """Prints records one by one in the chosen form."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._printed = 0
        self._last: dict[tuple[str, int], int] = {}
        if output == "csv":
            click.echo("topic,partition,offset,timestamp_ms,key,value,headers")

    def print(self, record: Any) -> None:
        """Print one record."""
        if self._output == "table":
            sys.stdout.buffer.write((record.value or b"") + b"\n")
            sys.stdout.buffer.flush()
        elif self._output == "csv":
            self._print_csv(_as_row(record))
        else:
            lead = "" if self._output == "jsonl" else "[\n  " if self._printed == 0 else ",\n  "
            click.echo(lead + json.dumps(_as_row(record)), nl=self._output == "jsonl")
        self._printed += 1
        self._last[record.topic, record.partition] = record.offset

    def positions(self) -> dict[Any, Any]:
        """What a group commits before the end: the offset after the last printed record of each
        partition, not the last polled.
        """
        from kafka.structs import OffsetAndMetadata, TopicPartition

        return {
            TopicPartition(topic, number): OffsetAndMetadata(offset + 1, "", -1)
            for (topic, number), offset in self._last.items()
        }

    def end(self) -> None:
        """Close what `print` opened."""
        if self._output == "json":
            click.echo("\n]" if self._printed else "[]")

    def _print_csv(self, row: dict[str, Any]) -> None:
        row["headers"] = json.dumps(row["headers"])
        csv.writer(sys.stdout, lineterminator="\n").writerow(row.values())
        sys.stdout.flush()


def _as_row(record: Any) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": text_of(record.key),
        "value": text_of(record.value),
        "headers": headers_of(record.headers),
    }
