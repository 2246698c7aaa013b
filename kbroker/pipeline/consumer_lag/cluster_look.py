"""One look at a cluster: where partitions begin and end, what was written lately, and where groups
stand. Questions only; `lag_figures` draws conclusions.

Works with any cluster of Kafka's protocol, with a dozen requests per broker however many partitions
there are. Needs no Spark session: that would take ten seconds, and these requests take half of one.

Law: committed offsets are asked for before the ends, so a lag is never too small, nor negative.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks, TopicView
from kbroker.client.consumer_groups import ConsumerGroup, listed_groups, read_group
from kbroker.client.topic_figures import (
    found_at,
    leaders_in,
    offsets_at,
    sizes_of,
)
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.pipeline.consumer_lag.record_times import Times, record_times
from kbroker.protocol.messages.list_offsets import MAX_TIMESTAMP

# Groups of Connect and others have offsets of their own kind; a simple group has no protocol.
_CONSUMER_PROTOCOLS = ("consumer", "")
_SHARE_GROUP = "share"
_NO_SUCH_OFFSET = -1

DEFAULT_WINDOW_MS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The scope of a look. Without topics: all but internal ones, or those the groups read."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()  # none: all groups
    window_ms: int = DEFAULT_WINDOW_MS  # of the rate


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLook:
    """A partition; None for what it or its leader did not answer. Times in Unix ms."""

    start_offset: int | None
    end_offset: int | None  # exclusive; the high watermark
    window_offset: int | None  # of the first record written within the window; its end when none
    newest_ms: int | None  # the largest timestamp; None also if there is no record
    size_bytes: int | None  # of the leader's replica
    open_offset: int | None = None  # where the first open transaction begins


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLook:
    """Everything that was found at `taken_ms` (Unix ms)."""

    taken_ms: int
    window_ms: int
    partitions: Mapping[TopicPartition, PartitionLook]
    groups: Mapping[str, ConsumerGroup]
    states: Mapping[str, str]  # of the groups, as the list of groups says
    record_times: Times  # of the next record of groups that lag
    unknown_topics: tuple[str, ...]
    unknown_groups: tuple[str, ...]
    known_topics: tuple[str, ...] = ()  # existing topics, for hints if a name is unknown
    known_groups: tuple[str, ...] = ()


def take_look(links: ClusterLinks, wanted: Wanted, now_ms: int) -> ClusterLook:
    """Ask the cluster. Raises OSError, ClientError and KafkaError if nothing answers at all."""
    listed = consumer_groups(links)
    unknown_groups = [name for name in wanted.groups if name not in listed]
    names = [name for name in wanted.groups or sorted(listed) if name in listed]
    groups = {name: read_group(links, name) for name in names}
    views, unknown_topics = _topics(links, wanted, groups)
    partitions = _partitions(links, views, now_ms - wanted.window_ms)
    return ClusterLook(
        taken_ms=now_ms,
        window_ms=wanted.window_ms,
        partitions=partitions,
        groups=groups,
        states={name: listed[name] for name in names},
        record_times=_record_times(links, groups, partitions),
        unknown_topics=tuple(unknown_topics),
        unknown_groups=tuple(unknown_groups),
        known_topics=tuple(view.name for view in links.topics(None)) if unknown_topics else (),
        known_groups=tuple(listed),
    )


def consumer_groups(links: ClusterLinks) -> dict[str, str]:
    """Return the state of each group that reads topics, by name."""
    return {
        entry.group_id: entry.group_state
        for entry in listed_groups(links)
        if entry.protocol_type in _CONSUMER_PROTOCOLS and entry.group_type.lower() != _SHARE_GROUP
    }


def _topics(
    links: ClusterLinks, wanted: Wanted, groups: Mapping[str, ConsumerGroup]
) -> tuple[list[TopicView], list[str]]:
    """Return the wanted topics that exist, and the names that do not."""
    read = {partition.topic for group in groups.values() for partition in group.committed}
    names = list(wanted.topics) or (sorted(read) if wanted.groups else None)
    if names is not None and not names:
        return [], []
    views = [
        view
        for view in links.topics(names)
        if view.code == ErrorCode.NONE and (names is not None or not view.is_internal)
    ]
    known = {view.name for view in views}
    return views, [name for name in wanted.topics if name not in known]


def _partitions(
    links: ClusterLinks, views: Sequence[TopicView], window_start_ms: int
) -> dict[TopicPartition, PartitionLook]:
    leaders = leaders_in(views)
    starts = offsets_at(links, leaders, EARLIEST)
    recent = offsets_at(links, leaders, window_start_ms)
    newest = found_at(links, leaders, MAX_TIMESTAMP)
    ends = offsets_at(links, leaders, LATEST)
    stable = offsets_at(links, leaders, LATEST, only_committed=True)
    sizes = sizes_of(links, leaders)
    looks = {}
    for partition in (TopicPartition(view.name, each) for view in views for each in view.leaders):
        end, found = ends.get(partition), recent.get(partition)
        newest_ms = newest[partition].timestamp if partition in newest else -1
        looks[partition] = PartitionLook(
            start_offset=starts.get(partition),
            end_offset=end,
            window_offset=end if found == _NO_SUCH_OFFSET else found,
            newest_ms=newest_ms if newest_ms >= 0 else None,
            size_bytes=sizes.get(partition),
            open_offset=_before(stable.get(partition), end),
        )
    return dict(sorted(looks.items()))


def _before(found: int | None, end: int | None) -> int | None:
    """Return the offset if it is before the end, else None."""
    return found if found is not None and end is not None and found < end else None


def _record_times(
    links: ClusterLinks,
    groups: Mapping[str, ConsumerGroup],
    partitions: Mapping[TopicPartition, PartitionLook],
) -> Times:
    positions: defaultdict[TopicPartition, set[int]] = defaultdict(set)
    ends: dict[TopicPartition, int] = {}
    for group in groups.values():
        for partition, committed in group.committed.items():
            look = partitions.get(partition)
            if committed is None or look is None or look.end_offset is None:
                continue
            if committed < look.end_offset:
                positions[partition].add(next_offset(committed, look))
                ends[partition] = look.end_offset
    return record_times(links, positions, ends)


def next_offset(committed: int, look: PartitionLook) -> int:
    """Return where a group goes on: retention may have overtaken what it committed."""
    return committed if look.start_offset is None else max(committed, look.start_offset)
