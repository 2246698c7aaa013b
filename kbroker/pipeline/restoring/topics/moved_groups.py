"""Lets groups of an archive go on in the target, at the record that they would have read next.

Law: a group is never set back, nor moved while it has members. A moved place never lies behind a
record that the group had still to read, restored or there before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import EARLIEST, ClusterLinks
from kbroker.client.consumer_groups import commit_offsets, read_group
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.manifest import GroupOffsets
from kbroker.pipeline.restoring.restore_plan import PartitionPlan
from kbroker.pipeline.restoring.topics.offset_runs import OffsetRun, translated
from kbroker.pipeline.restoring.topics.others_records import has_records

Runs = Mapping[TopicPartition, Sequence[OffsetRun]]

_NOWHERE: Mapping[TopicPartition, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedGroup:
    """The outcome for one group: how many of its offsets are set now, or why none is."""

    name: str
    partitions: int = 0
    changed: int = 0  # of these, how many were not set before
    refusal: str | None = None
    has_members: bool = False  # the reason of the refusal


def places(
    groups: GroupOffsets, plans: Sequence[PartitionPlan], runs: Runs
) -> dict[str, dict[TopicPartition, int | None]]:
    """Return where groups go on in targets with these `runs`; None if nothing was written there."""
    targets = {plan.source: plan.target for plan in plans}
    found: dict[str, dict[TopicPartition, int | None]] = {}
    for group, by_topic in sorted(groups.items()):
        moved = {
            target: translated(runs.get(target, ()), offset)
            for topic, offsets in by_topic.items()
            for number, offset in offsets.items()
            if (target := targets.get(TopicPartition(topic, number))) is not None
        }
        if moved:
            found[group] = moved
    return found


def move_groups(
    links: ClusterLinks, wanted: Mapping[str, Mapping[TopicPartition, int | None]], runs: Runs
) -> list[MovedGroup]:
    """Move groups to their places in the target, never back; a partition into which nothing was
    written is read from its start. Raises ClientError if the cluster is away.
    """
    firsts = {target: found[0].target_offset for target, found in runs.items() if found}
    empty = {place for each in wanted.values() for place, offset in each.items() if offset is None}
    starts = _starts(links, empty)
    found: list[MovedGroup] = []
    for name, each in wanted.items():
        goals = {place: starts[place] if at is None else at for place, at in each.items()}
        try:
            found.append(move_group(links, name, goals, firsts))
        except (ClientError, KafkaError, OSError) as error:
            found.append(MovedGroup(name=name, refusal=str(error)))
    return found


def _starts(links: ClusterLinks, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for view in links.topics({place.topic for place in partitions}) if partitions else ():
        numbers = [place.partition for place in sorted(partitions) if place.topic == view.name]
        for number, offset in links.offsets(view, numbers, EARLIEST).items():
            found[TopicPartition(view.name, number)] = offset
    return found


def move_group(
    links: ClusterLinks,
    name: str,
    goals: Mapping[TopicPartition, int],
    firsts: Mapping[TopicPartition, int] = _NOWHERE,
) -> MovedGroup:
    """Set the offsets of a group that are behind these goals, unless it has members, or has still
    to read what is before the `firsts` of partitions. Raises ClientError, KafkaError and OSError.
    """
    group = read_group(links, name)
    ahead = {
        place: offset
        for place, offset in goals.items()
        if (known := group.committed.get(place)) is None or known < offset
    }
    if ahead and group.members:
        members = "it has members in the target: stop them"
        return MovedGroup(name=name, refusal=members, has_members=True)
    for place in sorted(ahead.keys() & firsts.keys()):
        known, first = group.committed.get(place), firsts[place]
        if known is not None and known < first and _has_records(links, place, known, first):
            return MovedGroup(
                name=name,
                refusal=f"it has still to read {place} up to offset {first - 1}, which others have "
                "written: let it, or set its offsets with `kbroker group reset`",
            )
    codes = commit_offsets(links, name, ahead) if ahead else {}
    for place, code in codes.items():
        if code != ErrorCode.NONE:
            return MovedGroup(name=name, refusal=f"{place}: {code.name}")
    return MovedGroup(name=name, partitions=len(goals), changed=len(ahead))


def _has_records(links: ClusterLinks, place: TopicPartition, start: int, end: int) -> bool:
    return any(has_records(links, view, place, start, end) for view in links.topics({place.topic}))
