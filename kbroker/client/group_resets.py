"""Resets of groups: planned first, so that a person sees what would change.

Law: a plan changes nothing. A group with members is not to be reset, because they would go on from
their own positions, and commit those; `has_members_first` words it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks
from kbroker.client.consumer_groups import ConsumerGroup, commit_offsets, listed_groups
from kbroker.client.reset_targets import ResetPlace, Target, new_offset, wanted_offset
from kbroker.client.topic_figures import ends_of, leaders_of, offsets_at
from kbroker.client.topic_rows import rows_of
from kbroker.client.unknown_names import no_such, no_such_partition
from kbroker.errors import ErrorCode, Trouble
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.wording import counted


class ResetRefusedError(ClientError):
    """A reset of what is not there; `sentences` has one for each group, topic or partition."""

    def __init__(self, sentences: Sequence[str], trouble: Trouble | None = None) -> None:
        super().__init__(sentences[-1], trouble=trouble)
        self.sentences = sentences


class PlannedOffset(NamedTuple):
    """The offsets of one partition: committed (None: nothing is), the one that it would have, and
    where the partition begins and ends.
    """

    place: TopicPartition
    committed_offset: int | None
    new_offset: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPlan:
    """The plan of a reset: new offsets, a sentence for each partition that stays, and a pointer to
    more about those.
    """

    offsets: list[PlannedOffset]
    failures: list[str]
    trouble: Trouble | None


def planned_reset(
    links: ClusterLinks,
    group: ConsumerGroup,
    wanted: Mapping[str, frozenset[int]],
    target: Target,
    tell: Callable[[str], None],
) -> ResetPlan:
    """Plan a reset, and change nothing; `wanted`: partitions by topic, an empty set means all of
    it; if it is empty, all partitions that the group has offsets for. `tell` gets a sentence for
    each offset that is moved into its partition.

    Raises ResetRefusedError for groups, topics and partitions that do not exist, and OSError.
    """
    leaders = _leaders(links, group, wanted, target, tell)
    ends = ends_of(links, leaders)
    places = _places(links, group, leaders, ends.offsets, target)
    offsets, failures = _plan(places, target, tell)
    failures += [ends.refusal(place) for place in leaders if place not in places]
    return ResetPlan(offsets=offsets, failures=failures, trouble=ends.trouble)


def commit_reset(
    links: ClusterLinks, group: str, offsets: Sequence[PlannedOffset]
) -> dict[TopicPartition, str]:
    """Commit planned offsets; return why partitions were not reset, in words.

    Raises OSError, KafkaError.
    """
    codes = commit_offsets(links, group, {each.place: each.new_offset for each in offsets})
    return {place: _reason(code) for place, code in sorted(codes.items()) if code}


def has_members_first(group: ConsumerGroup) -> str:
    """Return the words about a group that cannot be reset, because it has members."""
    clients = sorted({member.client_id or member.member_id for member in group.members})
    is_one = len(group.members) == 1
    return (
        f"it has {counted(len(group.members), 'member')} ({', '.join(clients)}), which would go on "
        + ("where it is; stop it first" if is_one else "where they are; stop them first")
    )


def _leaders(
    links: ClusterLinks,
    group: ConsumerGroup,
    wanted: Mapping[str, frozenset[int]],
    target: Target,
    tell: Callable[[str], None],
) -> dict[TopicPartition, int]:
    """Return the leader of each partition to reset, or NO_LEADER; refuses what is not there."""
    if group.is_unknown and not wanted and target.of_file is None:
        _refuse([no_such("group", group.name, [str(g.group_id) for g in listed_groups(links)])])
    topics = links.describe(None).topics
    described = {str(topic.name): topic for topic in topics}
    _refuse(
        [no_such("topic", name, described) for name in wanted if name not in described],
        Trouble.UNKNOWN_TOPIC,
    )
    if wanted:
        places = {
            TopicPartition(name, number)
            for name, numbers in wanted.items()
            for number in numbers or [each.partition_index for each in described[name].partitions]
        }
    else:
        places = set(target.of_file if target.of_file is not None else group.committed)
    there = {place for place, _ in rows_of(topics)}
    _refuse(
        [
            no_such_partition(place, len(described[place.topic].partitions))
            if place.topic in described
            else no_such("topic", place.topic, described)
            for place in sorted(places - there)
        ]
    )
    if target.of_file is not None:
        places = _in_file(places, target.of_file, wanted, tell)
    leaders = leaders_of(described.values())
    return {place: leaders.get(place, NO_LEADER) for place in sorted(places)}


def _in_file(
    places: set[TopicPartition],
    offsets: Mapping[TopicPartition, int],
    wanted: Mapping[str, frozenset[int]],
    tell: Callable[[str], None],
) -> set[TopicPartition]:
    """Return the partitions with an offset in the file, and say which of a whole topic have none.
    Refuses a partition named by number, and a topic, without any.
    """
    found = places & set(offsets)
    absent = sorted(places - found)
    topics = {place.topic for place in found}
    _refuse(
        [
            f"{place}: the file has no offset of it"
            for place in absent
            if place.topic in topics and wanted[place.topic]
        ]
        + [
            f"{topic}: the file has no offset of this topic"
            for topic in sorted({place.topic for place in absent} - topics)
        ]
    )
    if absent:
        names = ", ".join(map(str, absent))
        tell(f"not in the file, so left as {'it is' if len(absent) == 1 else 'they are'}: {names}")
    return found


def _places(
    links: ClusterLinks,
    group: ConsumerGroup,
    leaders: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    target: Target,
) -> dict[TopicPartition, ResetPlace]:
    known = {place: leaders[place] for place in leaders if place in ends}
    starts = offsets_at(links, known, EARLIEST)
    if target.moment is None:
        at_moment: Mapping[TopicPartition, int] = {}
    elif target.moment in (EARLIEST, LATEST):
        at_moment = starts if target.moment == EARLIEST else ends
    else:
        at_moment = offsets_at(links, known, target.moment)
    return {
        place: ResetPlace(
            group.committed.get(place), starts[place], ends[place], at_moment.get(place)
        )
        for place in known
        if place in starts
    }


def _plan(
    places: Mapping[TopicPartition, ResetPlace], target: Target, tell: Callable[[str], None]
) -> tuple[list[PlannedOffset], list[str]]:
    """Return the new offsets, and a sentence for each partition that has none."""
    offsets, failures = [], []
    for partition, place in places.items():
        offset = new_offset(place, target, partition)
        if offset is None:
            reason = "its leader gives no offset for this time"
            if target.shift is not None:
                reason = "nothing is committed there that could be moved"
            failures.append(f"{partition}: {reason}")
            continue
        offsets.append(PlannedOffset(partition, place.committed, offset, place.start, place.end))
        wanted = wanted_offset(place, target, partition)
        if wanted != offset:
            tell(f"{partition}: offset {wanted} is not there, {offset} is taken instead")
    return offsets, failures


def _reason(code: ErrorCode) -> str:
    joined = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
    if code in joined or code == ErrorCode.REBALANCE_IN_PROGRESS:
        return f"a member has just joined the group, stop it first ({code.name})"
    return code.name


def _refuse(sentences: Sequence[str], trouble: Trouble | None = None) -> None:
    if sentences:
        raise ResetRefusedError(sentences, trouble)
