"""`kbroker topic trim`: delete the oldest records of a topic, up to an offset or a time.

Law: what is written while the command runs stays. A partition that refuses does not keep the others
from being trimmed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from kbroker.cli.connection import (
    CommandError,
    ExitCode,
    admin_client,
    bootstrap_option,
    sentence_of,
)
from kbroker.cli.output import output_option, print_rows, say
from kbroker.cli.time_argument import timestamp_ms

_COLUMNS = ("topic", "partition", "start_offset", "end_offset", "deleted")


@dataclass(frozen=True, slots=True)
class Cut:
    """What `--before` says: an offset, a time in Unix ms, or (both None) the end."""

    offset: int | None = None
    at_ms: int | None = None


@click.command()
@click.argument("topic")
@click.option(
    "--before",
    required=True,
    metavar="OFFSET|-1h|DATE|end",
    help="First offset to keep, or a time: older records go. `end` deletes all there is.",
)
@click.option(
    "--partition",
    "numbers",
    type=int,
    multiple=True,
    help="Only this partition; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@output_option
@bootstrap_option
def trim(  # one parameter per option
    bootstrap: str,
    topic: str,
    before: str,
    numbers: Sequence[int],
    dry_run: bool,
    output: str,
) -> None:
    """Delete the records of TOPIC before an offset or a time, and print where partitions begin."""
    cut = _parse_before(before, int(time.time() * 1000))
    failures: list[str] = []
    with admin_client(bootstrap) as client:
        partitions = _partitions(client, topic, numbers)
        starts, ends, targets = _offsets(client, partitions, cut)
        rows = []
        for partition in partitions:
            start, target = starts[partition], targets[partition]
            if target > ends[partition]:
                failures.append(_beyond_end(partition, target, ends[partition]))
                target = start
            elif target > start and not dry_run:
                target = _delete(client, partition, target, failures)
            rows.append(_row(partition, (start, max(start, target), ends[partition])))
    print_rows(rows, _COLUMNS, output)
    if dry_run:
        say("nothing was deleted: leave out --dry-run to do it")
    if failures:
        raise CommandError("\n".join(failures), ExitCode.ITEM_FAILED)


def _parse_before(text: str, now_ms: int) -> Cut:
    if text == "end":
        return Cut()
    if text.isascii() and text.isdecimal():
        return Cut(offset=int(text))
    at_ms = timestamp_ms(text, now_ms)
    if at_ms is None:
        raise click.UsageError(
            f"--before '{text}' is none of: an offset, a time ago such as -30s, -15m, -1h, -2d, "
            "a date such as 2026-11-21T10:00:00, end"
        )
    return Cut(at_ms=at_ms)


def _partitions(client: Any, topic: str, numbers: Sequence[int]) -> list[Any]:
    from kafka.structs import TopicPartition

    (described,) = client.describe_topics([topic])
    known = sorted(int(p["partition_index"]) for p in described["partitions"])
    if described["error_code"] or not known:
        raise CommandError(
            f"no such topic: {topic} (see `kbroker topic list`)", ExitCode.ITEM_FAILED
        )
    unknown = sorted(set(numbers) - set(known))
    if unknown:
        raise CommandError(
            f"{topic} has no partition {unknown[0]} (it has {len(known)})", ExitCode.ITEM_FAILED
        )
    return [TopicPartition(topic, number) for number in sorted(set(numbers) or known)]


def _offsets(
    client: Any, partitions: Sequence[Any], cut: Cut
) -> tuple[Mapping[Any, int], Mapping[Any, int], Mapping[Any, int]]:
    """Start, end and wanted start of each partition.

    The end is asked for first: where no record is as new as the time, all up to there goes, and
    what is written from now on stays.
    """
    from kafka.admin import OffsetSpec

    def found(spec: int) -> dict[Any, int]:
        answer = client.list_partition_offsets(dict.fromkeys(partitions, spec))
        return {partition: int(answer[partition].offset) for partition in partitions}

    ends = found(OffsetSpec.LATEST)
    starts = found(OffsetSpec.EARLIEST)
    if cut.at_ms is not None:
        at_time = found(max(cut.at_ms, 0))
        return starts, ends, {p: at_time[p] if at_time[p] >= 0 else ends[p] for p in partitions}
    if cut.offset is None:
        return starts, ends, ends
    return starts, ends, dict.fromkeys(partitions, cut.offset)


def _beyond_end(partition: Any, offset: int, end: int) -> str:
    return (
        f"{partition.topic}-{partition.partition}: offset {offset} is behind its end {end}, so "
        "nothing was deleted (all of it: --before end)"
    )


def _delete(client: Any, partition: Any, offset: int, failures: list[str]) -> int:
    """The first offset after the deletion; -1 where it was refused."""
    from kafka import errors

    try:
        answer = client.delete_records({partition: offset})
    except errors.PolicyViolationError:
        failures.append(
            f"{partition.topic}-{partition.partition}: a compacted topic keeps the newest record "
            "of each key; records before an offset go only with cleanup.policy=compact,delete"
        )
        return -1
    except errors.KafkaError as error:
        failures.append(f"{partition.topic}-{partition.partition}: {sentence_of(error)}")
        return -1
    return int(answer[partition]["low_watermark"])


def _row(partition: Any, offsets: tuple[int, int, int]) -> dict[str, Any]:
    start, new_start, end = offsets
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "start_offset": new_start,
        "end_offset": end,
        "deleted": new_start - start,
    }
