"""Groups: the list, one of them with members and lag, and changes: reset after a preview, delete.

Law: a reset commits the offsets that were previewed, and no others; neither it nor a deletion
touches a group with members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks
from kbroker.client.cluster_requests import GROUP, check_all_listed
from kbroker.client.consumer_groups import (
    MEMBERS_NOT_SAID,
    ConsumerGroup,
    GroupMember,
    delete_group,
    lag,
    listed_groups,
    read_group,
)
from kbroker.client.exit_code import ExitCode
from kbroker.client.group_resets import (
    PlannedOffset,
    commit_reset,
    has_members_first,
    planned_reset,
)
from kbroker.client.open_transactions import held_back, sentence_of_open
from kbroker.client.reset_targets import TARGETS, target_named
from kbroker.client.topic_figures import leaders_of, offsets_at
from kbroker.client.unknown_names import no_such
from kbroker.console.consoled_cluster import ConsoledCluster, Work
from kbroker.console.gaps import Gaps
from kbroker.console.group_lags import lags_of
from kbroker.console.pages import Page, Wanted, page_of
from kbroker.console.partition_figures import sum_of
from kbroker.console.topic_lookup import NotFoundError
from kbroker.errors import ErrorCode, Trouble
from kbroker.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group as its coordinator lists it; older brokers give neither state nor type. `lag` is None
    if nothing is committed, or an end is not known.
    """

    group: str
    state: str | None
    protocol_type: str
    type: str | None
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """A page of groups, sorted by name."""

    page: Page[GroupRow]
    gaps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """A member of a group, with the partitions that it reads. If the coordinator assigns (KIP-848),
    also with the protocol that it speaks, its epoch, and the partitions that it shall read.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...]
    protocol: str | None
    epoch: int | None
    target: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartition:
    """A partition that a group reads; `member_id` is None if nobody reads it now."""

    place: TopicPartition
    committed_offset: int | None
    start_offset: int | None
    end_offset: int | None
    lag: int | None
    member_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetails:
    """A group; `lag` is the sum, None if it is not known of some partition with an offset. Only one
    whose coordinator assigns (KIP-848) has epochs: its own, and that of its target.
    """

    group: str
    state: str
    strategy: str
    epoch: int | None
    target_epoch: int | None
    coordinator: int
    members: tuple[MemberRow, ...]
    partitions: tuple[GroupPartition, ...]
    lag: int | None
    gaps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPreview:
    """The outcome of a reset, if it is done: new offsets, a sentence for each partition that stays,
    notes, and why it would be refused as the group is now.
    """

    offsets: tuple[PlannedOffset, ...]
    failures: tuple[str, ...]
    notes: tuple[str, ...]
    refusal: str | None


async def groups(cluster: ConsoledCluster, wanted: Wanted) -> GroupPage:
    """List groups; lags are asked for those of the page only. Raises ClientError."""
    return await cluster.ask(lambda work: _groups(work, wanted))


async def group(cluster: ConsoledCluster, name: str) -> GroupDetails:
    """Describe a group. Raises NotFoundError if there is none, ClientError."""
    return await cluster.ask(lambda work: _group(work, name))


async def preview_reset(
    cluster: ConsoledCluster,
    name: str,
    to: str,
    partitions: Mapping[str, frozenset[int]],
    now_ms: int,
) -> ResetPreview:
    """Work out a reset, and change nothing. `to`: a text that `target_named` reads; `partitions` by
    topic, an empty set means all of it, and no topics all that the group has offsets for; `now_ms`
    is Unix time.

    Raises ClientError for a text, group, topic or partition that there is not.
    """
    return await cluster.ask(lambda work: _preview(work, name, to, partitions, now_ms))


async def reset(
    cluster: ConsoledCluster, name: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, str]:
    """Commit offsets that were previewed; return why partitions were not reset, in words.

    Raises ClientError if the group has members now.
    """
    return await cluster.ask(lambda work: _reset(work, name, offsets))


async def delete(cluster: ConsoledCluster, name: str) -> None:
    """Delete a group with its offsets. Raises ClientError if it has members, or is not there."""
    await cluster.ask(lambda work: _delete(work, name))


def _groups(work: Work, wanted: Wanted) -> GroupPage:
    links, gaps = work.links, Gaps()
    listed = listed_groups(links)
    with gaps.around("some groups"):
        check_all_listed(links, GROUP)
    page = page_of(listed, wanted, lambda each: str(each.group_id))
    lags = lags_of(work, [str(each.group_id) for each in page.rows], gaps)
    gaps.tell_silent(links.silent)
    rows = tuple(
        GroupRow(
            group=str(each.group_id),
            state=each.group_state or None,
            protocol_type=each.protocol_type,
            type=each.group_type or None,
            lag=lags.get(str(each.group_id)),
        )
        for each in page.rows
    )
    return GroupPage(
        page=Page(rows=rows, total=page.total, number=page.number, pages=page.pages),
        gaps=gaps.sentences(),
    )


def _group(work: Work, name: str) -> GroupDetails:
    links, gaps = work.links, Gaps()
    found = _known(links, name)
    topics = sorted({place.topic for place in found.committed})
    described = links.describe(topics).topics if topics else []
    leaders = {p: at for p, at in leaders_of(described).items() if p in found.committed}
    starts, ends = offsets_at(links, leaders, EARLIEST), offsets_at(links, leaders, LATEST)
    held = held_back(links, leaders, ends)
    if held:
        gaps.tell(sentence_of_open(held))
    if found.is_not_served:
        gaps.tell(MEMBERS_NOT_SAID)
    gaps.tell_silent(links.silent)
    owners = found.owners
    rows = tuple(
        GroupPartition(
            place=place,
            committed_offset=committed,
            start_offset=starts.get(place),
            end_offset=ends.get(place),
            lag=lag(committed, ends.get(place)),
            member_id=owners[place].member_id if place in owners else None,
        )
        for place, committed in sorted(found.committed.items())
    )
    return GroupDetails(
        group=name,
        state=found.state,
        strategy=found.strategy,
        epoch=None if found.epochs is None else found.epochs.group,
        target_epoch=None if found.epochs is None else found.epochs.target,
        coordinator=found.coordinator,
        members=tuple(map(_member, found.members)),
        partitions=rows,
        lag=sum_of(row.lag for row in rows if row.committed_offset is not None),
        gaps=gaps.sentences(),
    )


def _member(member: GroupMember) -> MemberRow:
    way = member.way
    return MemberRow(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.host,
        instance_id=member.instance_id,
        partitions=member.partitions,
        protocol=None if way is None else way.protocol or None,
        epoch=None if way is None else way.epoch,
        target=None if way is None else way.target,
    )


def _known(links: ClusterLinks, name: str) -> ConsumerGroup:
    found = read_group(links, name)
    if found.is_unknown:
        raise _no_such_group(links, name)
    return found


def _no_such_group(links: ClusterLinks, name: str) -> NotFoundError:
    known = [str(each.group_id) for each in listed_groups(links)]
    return NotFoundError(no_such("group", name, known))


def _preview(
    work: Work, name: str, to: str, partitions: Mapping[str, frozenset[int]], now_ms: int
) -> ResetPreview:
    links, gaps = work.links, Gaps()
    target = target_named(to, now_ms)
    if target is None:
        raise ClientError(f"'{to}' is none of: {TARGETS}", ExitCode.USAGE)
    if not name:  # brokers would accept it
        raise ClientError("the group has no name", ExitCode.USAGE)
    found = read_group(links, name)
    plan = planned_reset(links, found, partitions, target, gaps.tell)
    if found.is_unknown:
        gaps.tell(f"there is no group {name} yet: it would be made")
    gaps.tell_silent(links.silent)
    refusal = f"group {name} cannot be reset: {has_members_first(found)}" if found.members else None
    return ResetPreview(
        offsets=tuple(plan.offsets),
        failures=tuple(plan.failures),
        notes=gaps.sentences(),
        refusal=refusal,
    )


def _reset(
    work: Work, name: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, str]:
    links = work.links
    if not name or not offsets:
        raise ClientError("a reset needs a group and offsets", ExitCode.USAGE)
    found = read_group(links, name)
    if found.members:
        raise ClientError(
            f"group {name} was not reset: {has_members_first(found)}",
            trouble=Trouble.GROUP_HAS_MEMBERS,
        )
    leaders = leaders_of(links.describe(sorted({place.topic for place in offsets})).topics)
    starts, ends = offsets_at(links, leaders, EARLIEST), offsets_at(links, leaders, LATEST)
    refused = {
        place: f"offset {at} is not there any more"
        for place, at in offsets.items()
        if not starts.get(place, at + 1) <= at <= ends.get(place, -1)
    }
    planned = [
        PlannedOffset(place, found.committed.get(place), at, starts[place], ends[place])
        for place, at in sorted(offsets.items())
        if place not in refused
    ]
    return refused | (commit_reset(links, name, planned) if planned else {})


def _delete(work: Work, name: str) -> None:
    links = work.links
    code = delete_group(links, name)
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise _no_such_group(links, name)
    if code == ErrorCode.NON_EMPTY_GROUP:
        raise ClientError(
            f"group {name} was not deleted: it has members, stop them first",
            trouble=Trouble.GROUP_HAS_MEMBERS,
        )
    if code != ErrorCode.NONE:
        raise ClientError(f"group {name} was not deleted: {code.name}")
