"""Figures from looks at a cluster: rates, lag in records and in seconds, who falls behind, and when
each group catches up. Pure.

Definitions:

* rate: records whose timestamp is within the window before the look, per second of the window,
  whatever part of it the partition existed. With an earlier look: offsets added since, per second.
* lag: end offset less committed offset, as Kafka's own tools count it. It counts offsets, so
  markers and holes too.
* lag in seconds: the largest timestamp of the partition less that of the next record to read, in
  the producers' time. 0 if no record is left to read, also when only markers or holes are.
  Unknown if nothing is committed, or if the broker is too old to report largest timestamps
  (before Kafka 3.0).
* consumed per second: offsets committed since an earlier look, per second. Unknown when the group
  went back.
* time to catch up: lag over (consumed less produced) per second; unknown without an earlier look,
  and never (None, `falls_behind` true) if no more is consumed than produced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from kbroker.client.consumer_groups import ConsumerGroup, lag
from kbroker.model import TopicPartition
from kbroker.pipeline.consumer_lag.cluster_look import ClusterLook, PartitionLook, next_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFigures:
    """One partition; None for a figure that is not known."""

    topic: str
    partition: int
    start_offset: int | None
    end_offset: int | None
    records_per_s: float | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigures:
    """One partition as a group reads it; None for a figure that is not known."""

    group: str
    topic: str
    partition: int
    committed_offset: int | None
    end_offset: int | None
    lag: int | None  # records
    lag_s: float | None
    consumed_per_s: float | None
    produced_per_s: float | None
    catch_up_s: float | None
    member: str | None
    client_id: str | None
    host: str | None
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a group stands in a topic: a row of the ranking."""

    group: str
    topic: str
    partitions: int
    members: int | None
    state: str
    lag: int
    lag_s: float | None  # of the partition that is furthest behind
    consumed_per_s: float | None
    produced_per_s: float | None
    catch_up_s: float | None
    falls_behind: bool | None  # None: unknown before the second look


def partition_figures(look: ClusterLook, before: ClusterLook | None) -> list[PartitionFigures]:
    """Return the figures of all partitions, by topic and number."""
    return [
        PartitionFigures(
            topic=partition.topic,
            partition=partition.partition,
            start_offset=found.start_offset,
            end_offset=found.end_offset,
            records_per_s=_produced_per_s(look, before, partition),
            size_bytes=found.size_bytes,
        )
        for partition, found in look.partitions.items()
    ]


def group_figures(look: ClusterLook, before: ClusterLook | None) -> list[GroupFigures]:
    """Return the figures of all partitions of all groups, by group, topic and number."""
    return [
        _group_row(look, before, group, partition)
        for name, group in sorted(look.groups.items())
        for partition in sorted(group.committed)
        if partition in look.partitions
    ]


def standings(rows: Sequence[GroupFigures], look: ClusterLook) -> list[Standing]:
    """Rank who falls behind: the furthest behind in seconds first, then in records."""
    ranked = [
        _standing(name, topic, list(found), look)
        for (name, topic), found in groupby(rows, key=lambda row: (row.group, row.topic))
    ]
    return sorted(ranked, key=lambda row: (-(row.lag_s or 0), -row.lag, row.group, row.topic))


def _group_row(
    look: ClusterLook, before: ClusterLook | None, group: ConsumerGroup, partition: TopicPartition
) -> GroupFigures:
    found = look.partitions[partition]
    committed = group.committed[partition]
    owner = group.owners.get(partition)
    behind = lag(committed, found.end_offset)
    consumed = _consumed_per_s(look, before, group.name, partition)
    produced = _produced_per_s(look, before, partition)
    return GroupFigures(
        group=group.name,
        topic=partition.topic,
        partition=partition.partition,
        committed_offset=committed,
        end_offset=found.end_offset,
        lag=behind,
        lag_s=_lag_s(look, partition, committed, found),
        consumed_per_s=consumed,
        produced_per_s=produced,
        catch_up_s=_catch_up_s(behind, consumed, produced),
        member=owner.member_id if owner else None,
        client_id=owner.client_id if owner else None,
        host=owner.host if owner else None,
        state=look.states.get(group.name) or group.state,
    )


def _lag_s(
    look: ClusterLook, partition: TopicPartition, committed: int | None, found: PartitionLook
) -> float | None:
    if committed is None or found.end_offset is None:
        return None
    if committed >= found.end_offset:
        return 0.0
    position = (partition, next_offset(committed, found))
    if position not in look.record_times:
        return None
    next_ms = look.record_times[position]
    if next_ms is None:
        return 0.0
    return None if found.newest_ms is None else max(0, found.newest_ms - next_ms) / 1_000


def _produced_per_s(
    look: ClusterLook, before: ClusterLook | None, partition: TopicPartition
) -> float | None:
    now = look.partitions[partition]
    if now.end_offset is None:
        return None
    then = before.partitions.get(partition) if before else None
    if before is not None and then is not None and then.end_offset is not None:
        added = now.end_offset - then.end_offset
        if added >= 0:  # else the topic was created again between the looks
            return _per_s(added, look.taken_ms - before.taken_ms)
    if now.window_offset is None:
        return None
    return _per_s(max(0, now.end_offset - now.window_offset), look.window_ms)


def _consumed_per_s(
    look: ClusterLook, before: ClusterLook | None, group: str, partition: TopicPartition
) -> float | None:
    if before is None or group not in before.groups:
        return None
    then = before.groups[group].committed.get(partition)
    now = look.groups[group].committed[partition]
    if then is None or now is None or now < then:
        return None
    return _per_s(now - then, look.taken_ms - before.taken_ms)


def _per_s(records: int, duration_ms: int) -> float | None:
    return round(records * 1_000 / duration_ms, 3) if duration_ms > 0 else None


def _catch_up_s(behind: int | None, consumed: float | None, produced: float | None) -> float | None:
    if behind == 0:
        return 0.0
    if behind is None or consumed is None or produced is None or consumed <= produced:
        return None
    return round(behind / (consumed - produced), 1)


def _standing(group: str, topic: str, rows: Sequence[GroupFigures], look: ClusterLook) -> Standing:
    behind = sum(row.lag or 0 for row in rows)
    consumed = _sum(row.consumed_per_s for row in rows)
    produced = _sum(row.produced_per_s for row in rows)
    known = consumed is not None and produced is not None
    return Standing(
        group=group,
        topic=topic,
        partitions=len(rows),
        members=look.groups[group].member_count,
        state=rows[0].state,
        lag=behind,
        lag_s=max((row.lag_s for row in rows if row.lag_s is not None), default=None),
        consumed_per_s=consumed,
        produced_per_s=produced,
        catch_up_s=_catch_up_s(behind, consumed, produced),
        falls_behind=behind > 0 and (consumed or 0) < (produced or 0) if known else None,
    )


def _sum(values: Iterator[float | None]) -> float | None:
    """Sum up what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return round(sum(known), 3) if known else None
