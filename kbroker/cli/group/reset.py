"""`kbroker group reset`: sets the offsets from which a group goes on reading.

Law: nothing is changed without --yes, nor while the group has members: they would go on from their
own positions, and commit those.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from kbroker.cli.arguments.completion import group_names, topic_names
from kbroker.cli.arguments.connection import bootstrap_option, cluster_links, tell_silent
from kbroker.cli.arguments.refusals import no_such, no_such_partition, refuse
from kbroker.cli.arguments.topic_choice import described_topics
from kbroker.cli.group.reset_target import (
    ResetPlace,
    Target,
    new_offset,
    parse_target,
    parse_topics,
    wanted_offset,
)
from kbroker.cli.shown.output import counted, output_option, print_rows, say
from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks
from kbroker.client.consumer_groups import (
    ConsumerGroup,
    commit_offsets,
    listed_groups,
    read_group,
)
from kbroker.client.topic_figures import ends_of, leaders_of, offsets_at
from kbroker.client.topic_rows import rows_of
from kbroker.errors import ErrorCode, Trouble
from kbroker.model import NO_LEADER, TopicPartition

_COLUMNS = (
    "group", "topic", "partition", "committed_offset", "new_offset", "start_offset", "end_offset",
)  # fmt: skip


@click.command()
@click.argument("group", shell_complete=group_names)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:0,1]",
    shell_complete=topic_names,
    help="Only this topic, or these partitions of it, such as orders:0,2; may be repeated "
    "(default: all that the group has offsets for).",
)
@click.option(
    "--to",
    "text",
    required=True,
    metavar="earliest|latest|OFFSET|+N|-N|-1h|DATE|file:PATH",
    help="Where to go on: an end, an offset, so many records on or back, a time, or the offsets of "
    "a CSV file, such as `kbroker group describe --output csv` prints.",
)
@click.option("--yes", is_flag=True, help="Do it. Without this, the command only shows it.")
@output_option
@bootstrap_option
def reset(
    bootstrap: str, output: str, group: str, topics: Sequence[str], text: str, yes: bool
) -> None:
    """Set the committed offsets of GROUP, which must have no members.

    Prints what is committed and what would be; --yes does it. An offset outside of a partition
    becomes its start or its end. A group that is not there is made, if --topic or a file names
    partitions.
    """
    if not group:  # such as an unset variable gives; brokers would accept it
        raise click.UsageError("GROUP is empty: give the name of a group")
    target = parse_target(text, int(time.time() * 1000))
    wanted = parse_topics(topics)
    with cluster_links(bootstrap) as links:
        found = read_group(links, group)
        rows, failures, trouble = planned_reset(links, found, wanted, target)
        if yes and found.members:
            failures.append(f"group {group} was not reset: {_members_first(found)}")
        elif yes and failures:
            failures.append(f"group {group} was not reset: not all of its partitions could be")
        elif yes:
            if found.is_unknown:
                say(f"there was no group {group}: it is made")
            failures += _commit(links, group, rows)
    print_rows(rows, _COLUMNS, output)
    tell_silent(links)
    if not yes:
        if found.members:
            say(f"--yes would be refused: {_members_first(found)}")
        else:
            new = f"there is no group {group} yet, it would be made; " if found.is_unknown else ""
            say(f"{new}nothing was changed: add --yes to do it")
    refuse(failures, Trouble.GROUP_HAS_MEMBERS if yes and found.members else trouble)


class Plan(NamedTuple):
    """The plan of a reset: rows with `topic`, `partition`, `new_offset` and more, a sentence for
    each partition that stays, and a pointer to more about those.
    """

    rows: list[dict[str, Any]]
    failures: list[str]
    trouble: Trouble | None


def planned_reset(
    links: ClusterLinks, group: ConsumerGroup, wanted: Mapping[str, frozenset[int]], target: Target
) -> Plan:
    """Plan a reset, and change nothing; `wanted` as `parse_topics` returns it, empty: all
    partitions that the group has offsets for. Raises CommandError for topics and partitions that do
    not exist.
    """
    leaders = _leaders(links, group, wanted, target)
    ends = ends_of(links, leaders)
    places = _places(links, group, leaders, ends.offsets, target)
    rows, failures = _plan(group, places, target)
    failures += [ends.refusal(place) for place in leaders if place not in places]
    return Plan(rows, failures, ends.trouble)


def _leaders(
    links: ClusterLinks,
    group: ConsumerGroup,
    wanted: Mapping[str, frozenset[int]],
    target: Target,
) -> dict[TopicPartition, int]:
    """Return the leader of each partition to reset, or NO_LEADER; refuses what is not there."""
    if group.is_unknown and not wanted and target.of_file is None:
        refuse([no_such("group", group.name, [str(g.group_id) for g in listed_groups(links)])])
    topics = links.describe(None).topics
    described_topics(topics, wanted)
    described = described_topics(topics, ())
    if wanted:
        places = {
            TopicPartition(name, number)
            for name, numbers in wanted.items()
            for number in numbers or [each.partition_index for each in described[name].partitions]
        }
    else:
        places = set(target.of_file if target.of_file is not None else group.committed)
    there = {place for place, _ in rows_of(topics)}
    refuse(
        [
            no_such_partition(place, len(described[place.topic].partitions))
            if place.topic in described
            else no_such("topic", place.topic, described)
            for place in sorted(places - there)
        ]
    )
    if target.of_file is not None:
        places = _in_file(places, target.of_file, wanted)
    leaders = leaders_of(described.values())
    return {place: leaders.get(place, NO_LEADER) for place in sorted(places)}


def _in_file(
    places: set[TopicPartition],
    offsets: Mapping[TopicPartition, int],
    wanted: Mapping[str, frozenset[int]],
) -> set[TopicPartition]:
    """Return the partitions with an offset in the file, and say which of a whole topic have none.
    Refuses a partition named by number, and a topic, without any.
    """
    found = places & set(offsets)
    absent = sorted(places - found)
    topics = {place.topic for place in found}
    refuse(
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
        say(f"not in the file, so left as {'it is' if len(absent) == 1 else 'they are'}: {names}")
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
    group: ConsumerGroup, places: Mapping[TopicPartition, ResetPlace], target: Target
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return rows with the new offsets, and a sentence for each partition that has none."""
    rows, failures = [], []
    for partition, place in places.items():
        offset = new_offset(place, target, partition)
        if offset is None:
            reason = "its leader gives no offset for this time"
            if target.shift is not None:
                reason = "nothing is committed there that could be moved"
            failures.append(f"{partition}: {reason}")
            continue
        rows.append(
            {
                "group": group.name,
                **partition._asdict(),
                "committed_offset": place.committed,
                "new_offset": offset,
                "start_offset": place.start,
                "end_offset": place.end,
            }
        )
        wanted = wanted_offset(place, target, partition)
        if wanted != offset:
            say(f"{partition}: offset {wanted} is not there, {offset} is taken instead")
    return rows, failures


def _members_first(group: ConsumerGroup) -> str:
    clients = sorted({member.client_id or member.member_id for member in group.members})
    is_one = len(group.members) == 1
    return (
        f"it has {counted(len(group.members), 'member')} ({', '.join(clients)}), which would go on "
        + ("where it is; stop it first" if is_one else "where they are; stop them first")
    )


def _commit(links: ClusterLinks, group: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Commit the new offsets and say so; return a sentence for each that was refused."""
    offsets = {
        TopicPartition(row["topic"], row["partition"]): int(row["new_offset"]) for row in rows
    }
    if not offsets:
        return [f"group {group} was not reset: it has no offsets to move"]
    codes = commit_offsets(links, group, offsets)
    refused = {place: code for place, code in codes.items() if code != ErrorCode.NONE}
    if len(refused) < len(offsets):
        say(f"group {group}: {counted(len(offsets) - len(refused), 'partition')} reset")
    return [f"{place} was not reset: {_reason(code)}" for place, code in sorted(refused.items())]


def _reason(code: ErrorCode) -> str:
    joined = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
    if code in joined or code == ErrorCode.REBALANCE_IN_PROGRESS:
        return f"a member has just joined the group, stop it first ({code.name})"
    return code.name
