"""`kbroker topic trim`: delete the oldest records of a topic, up to an offset or a time.

Law: records that are written while the command runs stay, because nobody asked to delete them. A
partition that refuses does not keep the others from being trimmed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from kbroker.cli.arguments.completion import topic_names
from kbroker.cli.arguments.connection import bootstrap_option, cluster_links, tell_silent
from kbroker.cli.arguments.refusals import no_such_partition, refuse
from kbroker.cli.arguments.time_argument import MOMENTS, timestamp_ms
from kbroker.cli.arguments.topic_choice import described_topics, partitions_option
from kbroker.cli.shown.output import output_option, print_rows, say
from kbroker.client.cluster_configs import Resource, describe_configs
from kbroker.client.cluster_links import EARLIEST, ClusterLinks
from kbroker.client.topic_figures import ends_of, leaders_of, offsets_at
from kbroker.config.config_resources import ResourceType
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest

_POLICY, _COMPACTED_ONLY = "cleanup.policy", "compact"
_TIMEOUT_MS = 20_000  # less than the client waits for an answer
_PLACE = ("topic", "partition", "start_offset", "end_offset")


@dataclass(frozen=True, slots=True)
class TrimPoint:
    """The end that `--before` names: an offset, a time in Unix ms, or (both None) the end of the
    partition.
    """

    offset: int | None = None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Offsets:
    """The first and the end offset of a partition, and the first that it shall have."""

    start: int
    end: int
    target: int


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
    cut = _parse_before(before, int(time.time() * 1000))
    with cluster_links(bootstrap) as links:
        leaders = _partitions(links, topic, numbers)
        ends = ends_of(links, leaders)
        found = _offsets(links, leaders, ends.offsets, cut)
        failures = [ends.refusal(place) for place in leaders if place not in found]
        failures += [
            _beyond_end(place, offsets)
            for place, offsets in sorted(found.items())
            if offsets.target > offsets.end
        ]
        cuts = {
            place: offsets.target
            for place, offsets in found.items()
            if offsets.start < offsets.target <= offsets.end
        }
        starts, refusals = _foresee(links, cuts) if dry_run else _delete(links, leaders, cuts)
    gone = "would_delete" if dry_run else "deleted"
    rows = [
        _row(place, offsets, max(offsets.start, starts.get(place, offsets.start)), gone)
        for place, offsets in sorted(found.items())
    ]
    print_rows(rows, (*_PLACE, gone), output)
    tell_silent(links)
    if dry_run:
        say("nothing was deleted: leave out --dry-run to do it")
    refuse([*failures, *refusals], ends.trouble)


def _parse_before(text: str, now_ms: int) -> TrimPoint:
    if text in ("end", "latest"):
        return TrimPoint()
    if text.isascii() and text.isdecimal():
        return TrimPoint(offset=int(text))
    at_ms = timestamp_ms(text, now_ms)
    if at_ms is None:
        raise click.UsageError(f"--before '{text}' is none of: an offset, {MOMENTS}, end")
    return TrimPoint(at_ms=at_ms)


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


def _offsets(
    links: ClusterLinks,
    leaders: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    cut: TrimPoint,
) -> dict[TopicPartition, Offsets]:
    """Return the offsets of each partition that answers.

    The ends were asked for first: if no record is as new as the time, all up to there goes, and
    records that are written from now on stay.
    """
    known = {place: leaders[place] for place in ends}
    starts = offsets_at(links, known, EARLIEST)
    targets: Mapping[TopicPartition, int]
    if cut.at_ms is not None:
        at_time = offsets_at(links, known, max(cut.at_ms, 0))
        targets = {p: found if found >= 0 else ends[p] for p, found in at_time.items() if p in ends}
    elif cut.offset is not None:
        targets = dict.fromkeys(ends, cut.offset)
    else:
        targets = ends
    return {
        p: Offsets(starts[p], ends[p], targets[p]) for p in ends if p in starts and p in targets
    }


def _foresee(
    links: ClusterLinks, cuts: Mapping[TopicPartition, int]
) -> tuple[Mapping[TopicPartition, int], list[str]]:
    topics = [Resource(ResourceType.TOPIC, name) for name in {place.topic for place in cuts}]
    try:
        found = describe_configs(links, topics, [_POLICY])
    except (OSError, KafkaError) as error:
        say(f"{_POLICY} is not known, a compacted topic would refuse: {error}")
        return cuts, []
    if any(each.value == _COMPACTED_ONLY for settings in found.values() for each in settings):
        return {}, [_refusal(place, ErrorCode.POLICY_VIOLATION) for place in cuts]
    return cuts, []


def _delete(
    links: ClusterLinks, leaders: Mapping[TopicPartition, int], cuts: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, int], list[str]]:
    """Return where partitions begin now, and a sentence for each that refused."""
    by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for place in cuts:
        by_leader[leaders[place]].append(place)
    starts: dict[TopicPartition, int] = {}
    failures = []
    for leader, places in by_leader.items():
        partitions = [
            DeleteRecordsRequest.DeleteRecordsPartition(
                partition_index=place.partition, offset=cuts[place]
            )
            for place in places
        ]
        topic = DeleteRecordsRequest.DeleteRecordsTopic(name=places[0].topic, partitions=partitions)
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
        try:
            results = links.link(leader).ask(request).topics[0].partitions
        except OSError as error:
            failures += [f"{place}: {error}" for place in places]
            continue
        for result in results:
            place = TopicPartition(topic.name, result.partition_index)
            if result.error_code == ErrorCode.NONE:
                starts[place] = result.low_watermark
            else:
                failures.append(_refusal(place, ErrorCode(result.error_code)))
    return starts, failures


def _beyond_end(place: TopicPartition, offsets: Offsets) -> str:
    return (
        f"{place}: nothing was deleted, offset {offsets.target} is beyond the end offset "
        f"{offsets.end} (--before end deletes all there is)"
    )


def _refusal(place: TopicPartition, code: ErrorCode) -> str:
    if code == ErrorCode.POLICY_VIOLATION:
        return (
            f"{place}: a compacted topic keeps the newest record of each key; records before an "
            "offset go only with cleanup.policy=compact,delete (POLICY_VIOLATION)"
        )
    return f"{place}: nothing was deleted ({code.name})"


def _row(place: TopicPartition, offsets: Offsets, new_start: int, gone: str) -> dict[str, Any]:
    return {
        **place._asdict(),
        "start_offset": new_start,
        "end_offset": offsets.end,
        gone: new_start - offsets.start,
    }
