"""One topic: its partitions, its settings with their origins, and the groups that read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kbroker.client.cluster_configs import (
    Resource,
    Setting,
    describe_configs,
)
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import committed_offsets, lag, listed_groups
from kbroker.client.open_transactions import held_back, sentence_of_open
from kbroker.client.topic_figures import Figures, leaders_of
from kbroker.config.config_resources import ResourceType
from kbroker.console.consoled_cluster import ConsoledCluster, Work
from kbroker.console.gaps import Gaps
from kbroker.console.partition_figures import figures_of, sum_of
from kbroker.console.topic_lookup import topic_named
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.wording import counted, uuid_text

MOST_PARTITIONS: Final = 1_000
MOST_GROUPS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition; `leader` is None if it has none, and figures are if its leader gives none."""

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    start_offset: int | None
    end_offset: int | None
    records: int | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetails:
    """A topic with its first partitions; `partition_count` counts all of them."""

    name: str
    topic_id: str | None
    is_internal: bool
    partition_count: int
    partitions: tuple[PartitionRow, ...]
    records: int | None
    size_bytes: int | None
    settings: tuple[Setting, ...] | None
    gaps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingGroup:
    """A group with committed offsets in a topic; `lag` is None if an end is not known."""

    group: str
    state: str | None
    partitions: int
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingGroups:
    """The groups that read a topic, those with the longest lag first."""

    groups: tuple[ReadingGroup, ...]
    gaps: tuple[str, ...]


async def topic(cluster: ConsoledCluster, name: str) -> TopicDetails:
    """Describe a topic. Raises ClientError, with what may have been meant if there is none."""
    return await cluster.ask(lambda work: _topic(work, name))


async def groups_of_topic(cluster: ConsoledCluster, name: str) -> ReadingGroups:
    """Find the groups that have committed offsets in a topic: each group is asked, for as long as
    there is time. Raises ClientError.
    """
    return await cluster.ask(lambda work: _groups(work, name))


def _topic(work: Work, name: str) -> TopicDetails:
    links, gaps = work.links, Gaps()
    found = topic_named(links, name)
    rows = sorted(found.partitions, key=lambda each: each.partition_index)
    leaders = leaders_of([found])
    figures = figures_of(links, leaders, gaps)
    settings = _settings(links, name, gaps)
    held = held_back(links, leaders, figures.ends)
    if held:
        gaps.tell(sentence_of_open(held))
    if len(rows) > MOST_PARTITIONS:
        gaps.tell(f"{counted(len(rows) - MOST_PARTITIONS, 'partition')} are not shown")
    gaps.tell_silent(links.silent)
    places = [TopicPartition(name, row.partition_index) for row in rows]
    return TopicDetails(
        name=name,
        topic_id=uuid_text(found.topic_id) if found.topic_id.int else None,
        is_internal=found.is_internal,
        partition_count=len(rows),
        partitions=tuple(_row(name, row, figures) for row in rows[:MOST_PARTITIONS]),
        records=sum_of(figures.records(place) for place in places),
        size_bytes=sum_of(figures.sizes.get(place) for place in places),
        settings=settings,
        gaps=gaps.sentences(),
    )


def _row(name: str, row: Any, figures: Figures) -> PartitionRow:
    place = TopicPartition(name, row.partition_index)
    return PartitionRow(
        partition=row.partition_index,
        leader=None if row.leader_id == NO_LEADER else row.leader_id,
        leader_epoch=row.leader_epoch if row.leader_epoch >= 0 else None,
        replicas=tuple(row.replica_nodes),
        isr=tuple(row.isr_nodes),
        offline=tuple(row.offline_replicas),
        start_offset=figures.starts.get(place),
        end_offset=figures.ends.get(place),
        records=figures.records(place),
        size_bytes=figures.sizes.get(place),
    )


def _settings(links: ClusterLinks, name: str, gaps: Gaps) -> tuple[Setting, ...] | None:
    resource = Resource(ResourceType.TOPIC, name)
    with gaps.around("settings of the topic"):
        return tuple(describe_configs(links, [resource], with_synonyms=True)[resource])
    return None


def _groups(work: Work, name: str) -> ReadingGroups:
    links, gaps = work.links, Gaps()
    found = topic_named(links, name)
    listed = listed_groups(links)
    ends = figures_of(links, leaders_of([found]), gaps).ends
    rows: list[ReadingGroup] = []
    asked = 0
    for each in listed[:MOST_GROUPS]:
        work.check()
        if work.is_late:
            break
        asked += 1
        with gaps.around(f"offsets of group {each.group_id}"):
            committed = committed_offsets(links, str(each.group_id))
            mine = {place: at for place, at in committed.items() if place.topic == name}
            if mine:
                rows.append(
                    ReadingGroup(
                        group=str(each.group_id),
                        state=each.group_state or None,
                        partitions=len(mine),
                        lag=sum_of(lag(at, ends.get(place)) for place, at in mine.items()),
                    )
                )
    if asked < len(listed):
        gaps.tell(f"{counted(len(listed) - asked, 'group')} of {len(listed):,} were not asked")
    return ReadingGroups(groups=tuple(_longest_first(rows)), gaps=gaps.sentences())


def _longest_first(rows: Iterable[ReadingGroup]) -> Sequence[ReadingGroup]:
    return sorted(rows, key=lambda row: (-(row.lag or 0), row.group))
