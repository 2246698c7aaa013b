"""Changes of topics: create, configure, grow, trim after a preview, delete.

Law: what is refused is said, and what was asked for beside it is done all the same. Kafka's own
topics are not deleted, because the offsets of all groups, or all transactions, would be lost.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_configs import Resource
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.exit_code import ExitCode
from kbroker.client.moments import MOMENTS
from kbroker.client.record_trims import (
    TrimPlan,
    delete_records,
    foreseen_starts,
    planned_trim,
    trim_point,
)
from kbroker.client.setting_changes import SettingChanges, changed
from kbroker.client.topic_changes import deletion_refusal, grown, made_topics
from kbroker.client.topic_figures import leaders_of
from kbroker.client.topic_requests import BROKERS_DEFAULT, delete_topics
from kbroker.config.config_resources import ResourceType
from kbroker.console.consoled_cluster import ConsoledCluster, Work
from kbroker.console.done import Done
from kbroker.console.gaps import Gaps
from kbroker.console.topic_lookup import check_partitions, topic_named
from kbroker.errors import ErrorCode
from kbroker.model import NO_LEADER, TopicPartition

_CHANGE_S: Final = 30.0
_SEEN_S, _PAUSE_S = 5.0, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to be made; without numbers the brokers choose their defaults."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim:
    """Records to be deleted: those before a place, a text that `trim_point` reads at `now_ms` (Unix
    time), of some partitions, or of all. `at_most`: by partition, the start offset that a preview
    has shown; what was written since then stays, and so do partitions that are not in it.
    """

    before: str
    now_ms: int
    partitions: frozenset[int] = frozenset()
    at_most: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimmedPartition:
    """A partition to be trimmed, or that was: where it began, begins then, and ends, and how many
    offsets go.
    """

    partition: int
    old_start_offset: int
    start_offset: int
    end_offset: int
    deleted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """The outcome of a trim, as it was (`is_done`) or would be, and sentences about partitions that
    stay.
    """

    is_done: bool
    partitions: tuple[TrimmedPartition, ...]
    refused: tuple[str, ...]
    gaps: tuple[str, ...]


async def create_topic(cluster: ConsoledCluster, new: NewTopic) -> Done:
    """Make a topic, and return when it can be seen. Raises ClientError if no controller answers."""
    return await cluster.ask(lambda work: _create(work.links, new), _CHANGE_S)


async def configure_topic(cluster: ConsoledCluster, name: str, changes: SettingChanges) -> Done:
    """Change settings of a topic; all of it is done, or none.

    Raises ClientError if there is no such topic.
    """
    return await cluster.ask(lambda work: _configure(work.links, name, changes), _CHANGE_S)


async def grow_topic(cluster: ConsoledCluster, name: str, partitions: int) -> Done:
    """Give a topic this many partitions. Raises ClientError if there is no such topic."""
    return await cluster.ask(lambda work: _grow(work.links, name, partitions), _CHANGE_S)


async def delete_topic(cluster: ConsoledCluster, name: str) -> Done:
    """Delete a topic with its records. Raises ClientError if there is no such topic."""
    return await cluster.ask(lambda work: _delete(work.links, name), _CHANGE_S)


async def trim_topic(
    cluster: ConsoledCluster, name: str, trim: Trim, *, only_previews: bool
) -> Trimmed:
    """Delete the records of a topic before an offset or a time, or work out what would go.

    Raises ClientError for a text, topic or partition that there is not.
    """

    def question(work: Work) -> Trimmed:
        return _trim(work, name, trim, only_previews=only_previews)

    return await cluster.ask(question, _CHANGE_S)


def _create(links: ClusterLinks, new: NewTopic) -> Done:
    gaps = Gaps()
    refusals = made_topics(
        links,
        [new.name],
        new.settings,
        gaps.tell,
        partitions=BROKERS_DEFAULT if new.partitions is None else new.partitions,
        replication_factor=(
            BROKERS_DEFAULT if new.replication_factor is None else new.replication_factor
        ),
    )
    if not refusals:
        _wait_until_seen(links, new.name)
    return Done(said=gaps.sentences(), refused=tuple(each.sentence for each in refusals))


def _wait_until_seen(links: ClusterLinks, name: str) -> None:
    """Wait a little until the broker that is asked has heard of a topic: brokers hear of it from
    the controller, and the next page describes it.
    """
    give_up_s = time.monotonic() + _SEEN_S
    while links.topic(name).code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        if time.monotonic() > give_up_s:
            return
        links.sleep(_PAUSE_S)


def _configure(links: ClusterLinks, name: str, changes: SettingChanges) -> Done:
    if not changes.entries():
        raise ClientError("no setting is to be changed", ExitCode.USAGE)
    topic_named(links, name)
    gaps = Gaps()
    resource = Resource(ResourceType.TOPIC, name)
    refused = changed(links, [resource], changes, gaps.tell)
    return Done(said=gaps.sentences(), refused=tuple(refused))


def _grow(links: ClusterLinks, name: str, partitions: int) -> Done:
    topic_named(links, name)
    gaps = Gaps()
    refusals = grown(links, name, partitions, gaps.tell)
    return Done(said=gaps.sentences(), refused=tuple(each.sentence for each in refusals))


def _delete(links: ClusterLinks, name: str) -> Done:
    if topic_named(links, name).is_internal:
        sentence = f"{name} was not deleted: the brokers keep their own records in it"
        return Done(said=(), refused=(sentence,))
    (result,) = delete_topics(links, [name])
    if result.error_code == ErrorCode.NONE:
        return Done(said=(f"{name}: deleted",), refused=())
    return Done(said=(), refused=(deletion_refusal(result),))


def _trim(work: Work, name: str, trim: Trim, *, only_previews: bool) -> Trimmed:
    links, gaps, partitions = work.links, Gaps(), trim.partitions
    cut = trim_point(trim.before, trim.now_ms)
    if cut is None:
        raise ClientError(f"'{trim.before}' is none of: an offset, {MOMENTS}, end", ExitCode.USAGE)
    topic = topic_named(links, name)
    if topic.is_internal:  # brokers refuse it with a code that says less
        raise ClientError(f"{name} was not trimmed: brokers clean up Kafka's own topics themselves")
    check_partitions(topic, partitions)
    led = leaders_of([topic])
    numbers = sorted(partitions or (each.partition_index for each in topic.partitions))
    places = [TopicPartition(name, number) for number in numbers]
    leaders = {place: led.get(place, NO_LEADER) for place in places}
    plan = planned_trim(links, leaders, cut)
    if trim.at_most is not None:
        plan = plan.within(trim.at_most)
    if only_previews:
        starts, refused = foreseen_starts(links, plan.cuts, gaps.tell)
    else:
        starts, refused = delete_records(links, leaders, plan.cuts)
    gaps.tell_silent(links.silent)
    return Trimmed(
        is_done=not only_previews,
        partitions=_trimmed(plan, starts),
        refused=(*plan.failures, *refused),
        gaps=gaps.sentences(),
    )


def _trimmed(plan: TrimPlan, starts: Mapping[TopicPartition, int]) -> tuple[TrimmedPartition, ...]:
    rows = []
    for place, offsets in sorted(plan.offsets.items()):
        start = max(offsets.start, starts.get(place, offsets.start))
        rows.append(
            TrimmedPartition(
                partition=place.partition,
                old_start_offset=offsets.start,
                start_offset=start,
                end_offset=offsets.end,
                deleted=start - offsets.start,
            )
        )
    return tuple(rows)
