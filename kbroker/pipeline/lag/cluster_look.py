"""One look at a cluster: where partitions begin and end, what was written lately, and where groups
stand. Questions only; what follows from them is in `lag_figures`.

Any cluster of Kafka's protocol; a dozen requests per broker, however many partitions there are. No
Spark session is needed for a dozen requests: it would take ten seconds, and these take half of one.

Law: what a group has committed is asked before the ends, so a lag is never too small, nor negative.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from kafka.admin import OffsetSpec
from kafka.errors import KafkaError
from kafka.structs import OffsetAndTimestamp, TopicPartition

from kbroker.client.group_offsets import GroupOffsets, read_groups
from kbroker.client.partition_offsets import leaders_of, offsets_at
from kbroker.pipeline.lag.record_times import Times, record_times

# Groups of Connect and others have offsets of their own kind; a simple group has no protocol.
_CONSUMER_PROTOCOLS = ("consumer", "")
_SHARE_GROUP = "share"
_NO_SUCH_OFFSET = -1

DEFAULT_WINDOW_MS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to look at. No topics: all that are not internal, or those the named groups read."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()  # none: all groups
    window_ms: int = DEFAULT_WINDOW_MS  # of the rate


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLook:
    """A partition; what it or its leader did not tell is None. Times in Unix ms."""

    start_offset: int | None
    end_offset: int | None  # exclusive; the high watermark
    window_offset: int | None  # of the first record written within the window; its end when none
    newest_ms: int | None  # the largest timestamp; None also where there is no record
    size_bytes: int | None  # of the leader's replica
    open_offset: int | None = None  # where the first open transaction begins


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLook:
    """All that was found, at `taken_ms` (Unix ms)."""

    taken_ms: int
    window_ms: int
    partitions: Mapping[TopicPartition, PartitionLook]
    groups: Mapping[str, GroupOffsets]
    states: Mapping[str, str]  # of the groups, as the list of groups says
    record_times: Times  # of the next record of groups that lag
    unknown_topics: tuple[str, ...]
    unknown_groups: tuple[str, ...]
    known_topics: tuple[str, ...] = ()  # for hints: what there is where a name is unknown
    known_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterClients:
    """How the cluster is asked: a `KafkaAdminClient`, and what opens a `KafkaConsumer`."""

    admin: Any
    open_consumer: Callable[[], AbstractContextManager[Any]]


def take_look(clients: ClusterClients, wanted: Wanted, now_ms: int) -> ClusterLook:
    """Ask the cluster. Raises the client library's errors where nothing answers at all."""
    admin = clients.admin
    listed = _consumer_groups(admin)
    unknown_groups = [name for name in wanted.groups if name not in listed]
    names = [name for name in wanted.groups or sorted(listed) if name in listed]
    groups = read_groups(admin, names)
    described, unknown_topics = _topics(admin, wanted, groups)
    leaders = leaders_of(described)
    partitions = _partitions(admin, described, leaders, now_ms - wanted.window_ms)
    return ClusterLook(
        taken_ms=now_ms,
        window_ms=wanted.window_ms,
        partitions=partitions,
        groups=groups,
        states={name: listed[name] for name in names},
        record_times=_record_times(clients, groups, partitions),
        unknown_topics=tuple(unknown_topics),
        unknown_groups=tuple(unknown_groups),
        known_topics=tuple(admin.list_topics()) if unknown_topics else (),
        known_groups=tuple(listed),
    )


def _consumer_groups(admin: Any) -> dict[str, str]:
    """The state of each group that reads topics, by name."""
    return {
        entry["group_id"]: entry.get("group_state") or ""
        for entry in admin.list_groups()
        if entry.get("protocol_type") in _CONSUMER_PROTOCOLS
        and str(entry.get("group_type", "")).lower() != _SHARE_GROUP
    }


def _topics(
    admin: Any, wanted: Wanted, groups: Mapping[str, GroupOffsets]
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Return what `describe_topics` says of the topics, and the names that do not exist."""
    read = {partition.topic for group in groups.values() for partition in group.committed}
    names = list(wanted.topics) or (sorted(read) if wanted.groups else None)
    if names is not None and not names:
        return [], []
    described = [
        topic
        for topic in admin.describe_topics(names)
        if topic["error_code"] == 0 and (names is not None or not topic["is_internal"])
    ]
    known = {topic["name"] for topic in described}
    return described, [name for name in wanted.topics if name not in known]


def _partitions(
    admin: Any,
    described: Sequence[Mapping[str, Any]],
    leaders: Mapping[TopicPartition, int],
    window_start_ms: int,
) -> dict[TopicPartition, PartitionLook]:
    starts = offsets_at(admin, leaders, OffsetSpec.EARLIEST)
    recent = offsets_at(admin, leaders, window_start_ms)
    newest = offsets_at(admin, leaders, OffsetSpec.MAX_TIMESTAMP)
    ends = offsets_at(admin, leaders, OffsetSpec.LATEST)
    stable = offsets_at(admin, leaders, OffsetSpec.LATEST, only_committed=True)
    sizes = _sizes(admin, leaders)
    looks = {}
    for topic in described:
        for entry in topic["partitions"]:
            partition = TopicPartition(topic["name"], entry["partition_index"])
            end = ends[partition].offset if partition in ends else None
            found = recent[partition].offset if partition in recent else None
            newest_ms = newest[partition].timestamp if partition in newest else -1
            looks[partition] = PartitionLook(
                start_offset=starts[partition].offset if partition in starts else None,
                end_offset=end,
                window_offset=end if found == _NO_SUCH_OFFSET else found,
                newest_ms=newest_ms if newest_ms >= 0 else None,
                size_bytes=sizes.get(partition),
                open_offset=_before(stable.get(partition), end),
            )
    return dict(sorted(looks.items()))


def _before(found: OffsetAndTimestamp | None, end: int | None) -> int | None:
    """The offset, where it lies before the end."""
    return found.offset if found is not None and end is not None and found.offset < end else None


def _sizes(admin: Any, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Bytes of the leader's replica. Empty where the cluster does not tell, or not us."""
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for partition in leaders:
        wanted[partition.topic].append(partition.partition)
    try:
        answers = admin.describe_log_dirs(dict(wanted)) if wanted else []
    except KafkaError:
        return {}
    return {
        partition: entry["partition_size"]
        for answer in answers
        for directory in answer["log_dirs"]
        for topic in directory["topics"]
        for entry in topic["partitions"]
        for partition in [TopicPartition(topic["name"], entry["partition_index"])]
        if leaders.get(partition) == answer["broker"] and not entry["is_future_key"]
    }


def _record_times(
    clients: ClusterClients,
    groups: Mapping[str, GroupOffsets],
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
    return record_times(clients.open_consumer, positions, ends)


def next_offset(committed: int, look: PartitionLook) -> int:
    """Where a group goes on: retention may have overtaken what it committed."""
    return committed if look.start_offset is None else max(committed, look.start_offset)
