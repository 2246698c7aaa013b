"""`kbroker topic trim`: delete the oldest records of a topic, up to an offset or a time.

Law: records that are written while the command runs stay, because nobody asked to delete them. A
partition that refuses does not keep the others from being trimmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from kbroker.cli.arguments.completion import topic_names
from kbroker.cli.arguments.connection import bootstrap_option, cluster_links, tell_silent
from kbroker.cli.arguments.refusals import refuse
from kbroker.cli.arguments.topic_choice import described_topics, partitions_option
from kbroker.cli.shown.output import output_option, print_rows, say
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.moments import MOMENTS
from kbroker.client.record_trims import (
    Offsets,
    TrimPoint,
    delete_records,
    foreseen_starts,
    planned_trim,
    trim_point,
)
from kbroker.client.topic_figures import leaders_of
from kbroker.client.unknown_names import no_such_partition
from kbroker.client.wall_clock import unix_now_ms
from kbroker.model import NO_LEADER, TopicPartition

_PLACE = ("topic", "partition", "start_offset", "end_offset")


@click.command(short_help="Delete the oldest records of a topic.")
@click.argument("topic", shell_complete=topic_names)
@click.option(
    "--before",
    required=True,
    metavar="OFFSET|-1h|DATE|end",
    help="First offset to keep, or a time: older records go. `end` deletes all there is.",
)
@partitions_option()
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@output_option
@bootstrap_option
def trim(
    bootstrap: str, topic: str, before: str, numbers: Sequence[int], dry_run: bool, output: str
) -> None:
    """Delete the records of TOPIC before an offset or a time, and print where partitions begin."""
    cut = _parse_before(before, unix_now_ms())
    with cluster_links(bootstrap) as links:
        leaders = _partitions(links, topic, numbers)
        plan = planned_trim(links, leaders, cut)
        starts, refusals = (
            foreseen_starts(links, plan.cuts, say)
            if dry_run
            else delete_records(links, leaders, plan.cuts)
        )
    gone = "would_delete" if dry_run else "deleted"
    rows = [
        _row(place, offsets, max(offsets.start, starts.get(place, offsets.start)), gone)
        for place, offsets in sorted(plan.offsets.items())
    ]
    print_rows(rows, (*_PLACE, gone), output)
    tell_silent(links)
    if dry_run:
        say("nothing was deleted: leave out --dry-run to do it")
    refuse([*plan.failures, *refusals], plan.trouble)


def _parse_before(text: str, now_ms: int) -> TrimPoint:
    cut = trim_point(text, now_ms)
    if cut is None:
        raise click.UsageError(f"--before '{text}' is none of: an offset, {MOMENTS}, end")
    return cut


def _partitions(
    links: ClusterLinks, name: str, numbers: Sequence[int]
) -> dict[TopicPartition, int]:
    topic = described_topics(links.describe(None).topics, [name])[name]
    if topic.is_internal:  # brokers refuse it with a code that says less
        refuse([f"{name} was not trimmed: brokers clean up Kafka's own topics by themselves"])
    known = sorted(partition.partition_index for partition in topic.partitions)
    unknown = sorted(set(numbers) - set(known))
    if unknown:
        refuse([no_such_partition(TopicPartition(name, unknown[0]), len(known))])
    leaders = leaders_of([topic])
    wanted = [TopicPartition(name, number) for number in sorted(set(numbers) or known)]
    return {place: leaders.get(place, NO_LEADER) for place in wanted}


def _row(place: TopicPartition, offsets: Offsets, new_start: int, gone: str) -> dict[str, Any]:
    return {
        **place._asdict(),
        "start_offset": new_start,
        "end_offset": offsets.end,
        gone: new_start - offsets.start,
    }
