"""`kbroker group reset`: sets the offsets from which a group goes on reading.

Law: nothing is changed without --yes, nor while the group has members: they would go on from their
own positions, and commit those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from kbroker.cli.arguments.completion import group_names, topic_names
from kbroker.cli.arguments.connection import bootstrap_option, cluster_links, tell_silent
from kbroker.cli.arguments.refusals import refuse
from kbroker.cli.group.reset_target import parse_target, parse_topics
from kbroker.cli.shown.output import counted, output_option, print_rows, say
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import ConsumerGroup, read_group
from kbroker.client.group_resets import (
    PlannedOffset,
    ResetPlan,
    ResetRefusedError,
    commit_reset,
    has_members_first,
    planned_reset,
)
from kbroker.client.reset_targets import Target
from kbroker.client.wall_clock import unix_now_ms
from kbroker.errors import Trouble

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
    target = parse_target(text, unix_now_ms())
    wanted = parse_topics(topics)
    with cluster_links(bootstrap) as links:
        found = read_group(links, group)
        plan = planned_or_refused(links, found, wanted, target)
        failures = [*plan.failures]
        if yes and found.members:
            failures.append(f"group {group} was not reset: {has_members_first(found)}")
        elif yes and failures:
            failures.append(f"group {group} was not reset: not all of its partitions could be")
        elif yes:
            if found.is_unknown:
                say(f"there was no group {group}: it is made")
            failures += _commit(links, group, plan.offsets)
    print_rows(plan_rows(group, plan.offsets), _COLUMNS, output)
    tell_silent(links)
    if not yes:
        if found.members:
            say(f"--yes would be refused: {has_members_first(found)}")
        else:
            new = f"there is no group {group} yet, it would be made; " if found.is_unknown else ""
            say(f"{new}nothing was changed: add --yes to do it")
    refuse(failures, Trouble.GROUP_HAS_MEMBERS if yes and found.members else plan.trouble)


def planned_or_refused(
    links: ClusterLinks, group: ConsumerGroup, wanted: Mapping[str, frozenset[int]], target: Target
) -> ResetPlan:
    """Return what `planned_reset` does, and say what it says. CommandError if it refuses."""
    try:
        return planned_reset(links, group, wanted, target, say)
    except ResetRefusedError as error:
        refuse(error.sentences, error.trouble)
        raise  # it has a sentence


def plan_rows(group: str, offsets: Iterable[PlannedOffset]) -> list[dict[str, Any]]:
    """Return the row of each partition that would be reset."""
    return [{"group": group, **each.place._asdict(), **_offsets(each)} for each in offsets]


def _offsets(planned: PlannedOffset) -> dict[str, int | None]:
    return {name: value for name, value in planned._asdict().items() if name != "place"}


def _commit(links: ClusterLinks, group: str, offsets: Sequence[PlannedOffset]) -> list[str]:
    """Commit the new offsets and say so; return a sentence for each that was refused."""
    if not offsets:
        return [f"group {group} was not reset: it has no offsets to move"]
    refused = commit_reset(links, group, offsets)
    if len(refused) < len(offsets):
        say(f"group {group}: {counted(len(offsets) - len(refused), 'partition')} reset")
    return [f"{place} was not reset: {reason}" for place, reason in refused.items()]
