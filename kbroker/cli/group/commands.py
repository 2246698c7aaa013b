"""`kbroker group`: consumer groups, their members and lag, and the offsets they read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

import click

from kbroker.cli.arguments.completion import group_names
from kbroker.cli.arguments.connection import bootstrap_option, cluster_links, tell_silent
from kbroker.cli.arguments.http_options import token_option
from kbroker.cli.arguments.refusals import refuse
from kbroker.cli.group.reset import reset
from kbroker.cli.lazy_commands import CommandGroup
from kbroker.cli.shown.open_transactions import tell_open
from kbroker.cli.shown.output import counted, output_option, print_rows, say
from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks
from kbroker.client.cluster_requests import GROUP, check_all_listed
from kbroker.client.consumer_groups import (
    MEMBERS_NOT_SAID,
    OF_JOBS,
    ConsumerGroup,
    GroupMember,
    delete_group,
    epochs_shown,
    lag,
    listed_groups,
    read_group,
)
from kbroker.client.open_transactions import held_back
from kbroker.client.topic_figures import leaders_of, offsets_at
from kbroker.client.unknown_names import no_such
from kbroker.errors import ErrorCode, Trouble
from kbroker.model import TopicPartition

_LISTED = ("group", "state", "protocol_type", "type")
_DESCRIBED = (
    "group",
    "topic",
    "partition",
    "committed_offset",
    "start_offset",
    "end_offset",
    "lag",
    "member",
    "client_id",
    "host",
    "state",
)
_UNKNOWN = (None, None)
_WAITED_FOR = 3  # members that a sentence names
# The first and the end offset of each partition, as far as its leader gave them.
Bounds = Mapping[TopicPartition, tuple[int | None, int | None]]
_MEMBERS = ("group", "member", "client_id", "host", "instance_id", "partitions", "state")
_OF_NEW_MEMBERS = ("target", "epoch", "protocol", "subscription", "pattern")  # in groups of KIP-848
_NEW_MEMBERS = (*_MEMBERS[:-1], *_OF_NEW_MEMBERS, "state")


@click.group(cls=CommandGroup)
def group() -> None:
    """List, describe, reset and delete consumer groups."""


group.add_command(reset)


@group.command("list")
@click.option("--internal", is_flag=True, help="Show the groups of kbroker's own jobs too.")
@output_option
@bootstrap_option
def list_groups(bootstrap: str, output: str, internal: bool) -> None:
    """Print one line per group.

    Restores, mirrors and rules keep in groups of their own how far they are: --internal shows them.
    """
    with cluster_links(bootstrap) as links:
        listed = listed_groups(links)
        shown = [each for each in listed if internal or not each.group_id.startswith(OF_JOBS)]
        rows = [
            {
                "group": entry.group_id,
                "state": entry.group_state or None,  # older brokers give neither
                "protocol_type": entry.protocol_type,
                "type": entry.group_type or None,
            }
            for entry in shown
        ]
        print_rows(rows, _LISTED, output)
        tell_silent(links)
        check_all_listed(links, GROUP)
    if listed and not rows:
        say(f"no groups but {counted(len(listed), 'group')} of kbroker's jobs: add --internal")
    elif not rows:
        say("no groups: there is one when a consumer has joined it or committed offsets")


@group.command("describe", short_help="Print offsets, lag and members of a group.")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=group_names)
@click.option("--members", is_flag=True, help="Print each member with the partitions it reads.")
@click.option(
    "--events",
    is_flag=True,
    help="Print what happened to the group lately, and why, as its coordinator says at its HTTP "
    "address.",
)
@click.option(
    "--url",
    "urls",
    multiple=True,
    default=["http://127.0.0.1:8080"],
    show_default=True,
    metavar="http://HOST:PORT",
    help="HTTP address (kbroker.http.listeners) that --events asks, which a start in dev prints as "
    "the console's; may be repeated.",
)
@token_option
@output_option
@bootstrap_option
def describe(
    bootstrap: str,
    output: str,
    names: Sequence[str],
    members: bool,
    events: bool,
    urls: Sequence[str],
    token_file: TextIO | None,
) -> None:
    """Print each partition of a group: committed offset, start and end of the log, the lag, and who
    reads it. A member without a partition has a line of its own.

    The lag is from the committed offset to the end. Where that offset is below START_OFFSET, the
    records between them are gone.

    Of a group whose coordinator assigns (KIP-848), --members also prints what each member is to
    have (TARGET), the epoch that it has reached, which protocol it speaks, and what it subscribes
    to: topics by their names (SUBSCRIPTION), and a pattern.
    """
    if events:
        from kbroker.cli.broker.http_address import http_addresses
        from kbroker.cli.group.events import print_events
        from kbroker.client.bootstrap import settings_of

        asked = http_addresses(urls, token_file, settings_of(bootstrap))
        print_events(list(dict.fromkeys(names)), asked, output)
        return
    with cluster_links(bootstrap) as links:
        groups = [read_group(links, name) for name in dict.fromkeys(names)]
        leaders = {} if members else _leaders(links, groups)
        bounds = _bounds(links, leaders)
        held = held_back(links, leaders, {place: end for place, (_, end) in bounds.items()})
        missing = [group.name for group in groups if group.is_unknown]
        known = [str(entry.group_id) for entry in listed_groups(links)] if missing else []
    found = [group for group in groups if not group.is_unknown]
    if members:
        rows = [_member_row(group, member) for group in found for member in group.members]
        is_new = any(group.epochs is not None for group in found)
        print_rows(rows, _NEW_MEMBERS if is_new else _MEMBERS, output)
    else:
        rows = [row for group in found for row in _rows(group, bounds)]
        print_rows(rows, _DESCRIBED, output)
    for group in found:
        say(_summary(group, bounds))
    tell_open({place: at for place, at in held.items() if any(place in g.committed for g in found)})
    tell_silent(links)
    refuse([no_such("group", name, known) for name in missing])


@group.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=group_names)
@click.option("--if-exists", is_flag=True, help="A missing group is fine.")
@bootstrap_option
def delete(bootstrap: str, names: Sequence[str], if_exists: bool) -> None:
    """Delete groups with their committed offsets. A group with members is not deleted."""
    failures = []
    trouble = None
    with cluster_links(bootstrap) as links:
        for name in dict.fromkeys(names):
            code = delete_group(links, name)
            if code == ErrorCode.NONE:
                say(f"{name}: deleted")
            elif code == ErrorCode.NON_EMPTY_GROUP:
                trouble = Trouble.GROUP_HAS_MEMBERS
                failures.append(
                    f"group {name} was not deleted: it has members, stop them first "
                    f"(`kbroker group describe {name} --members` names them)"
                )
            elif code != ErrorCode.GROUP_ID_NOT_FOUND:
                failures.append(f"group {name} was not deleted: {code.name}")
            elif if_exists:
                say(f"{name}: nothing to do, there is no such group")
            else:
                known = [str(entry.group_id) for entry in listed_groups(links)]
                failures.append(no_such("group", name, known))
    refuse(failures, trouble)


def _leaders(links: ClusterLinks, groups: Iterable[ConsumerGroup]) -> dict[TopicPartition, int]:
    topics = sorted({place.topic for group in groups for place in group.committed})
    return leaders_of(links.describe(topics).topics) if topics else {}


def _bounds(links: ClusterLinks, leaders: Mapping[TopicPartition, int]) -> Bounds:
    starts = offsets_at(links, leaders, EARLIEST)
    ends = offsets_at(links, leaders, LATEST)
    return {place: (starts.get(place), ends.get(place)) for place in leaders}


def _rows(group: ConsumerGroup, bounds: Bounds) -> list[dict[str, Any]]:
    owners = group.owners
    rows = []
    for place, committed in sorted(group.committed.items()):
        start, end = bounds.get(place, _UNKNOWN)
        row = {
            **place._asdict(),
            "committed_offset": committed,
            "start_offset": start,
            "end_offset": end,
            "lag": lag(committed, end),
        }
        rows.append({**row, **_who(group, owners.get(place))})
    return rows + [_who(group, member) for member in group.members if not member.partitions]


def _who(group: ConsumerGroup, member: GroupMember | None) -> dict[str, Any]:
    return {
        "group": group.name,
        "member": member.member_id if member else None,
        "client_id": member.client_id if member else None,
        "host": member.host if member else None,
        "state": group.state,
    }


def _member_row(group: ConsumerGroup, member: GroupMember) -> dict[str, Any]:
    way = member.way
    return {
        **_who(group, member),
        "instance_id": member.instance_id,
        "partitions": [str(place) for place in member.partitions],
        "target": None if way is None else [str(place) for place in way.target],
        "epoch": None if way is None else way.epoch,
        "protocol": None if way is None else way.protocol or None,
        "subscription": None if way is None else way.topics,
        "pattern": None if way is None else way.pattern or None,
    }


def _members_counted(group: ConsumerGroup) -> str:
    if group.is_not_served:
        return MEMBERS_NOT_SAID
    return counted(len(group.members), "member")


def _summary(group: ConsumerGroup, bounds: Bounds) -> str:
    said = f"group {group.name} is {group.state}: {_members_counted(group)}"
    if group.epochs is not None:
        said += f", epoch {epochs_shown(group.epochs)}, assigned by {group.strategy}"
    lags = [
        lag(committed, bounds.get(place, _UNKNOWN)[1])
        for place, committed in group.committed.items()
    ]
    known = [each for each in lags if each is not None]
    if known:
        said += f", lag {sum(known)}"
    return said + "".join(_waited_for(group)[:_WAITED_FOR])


def _waited_for(group: ConsumerGroup) -> list[str]:
    """Name the members that have still to give up partitions, and which."""
    return [
        f", waits for {member.member_id!r} (client {member.client_id!r}) to give up "
        f"{', '.join(map(str, surplus))}"
        for member, surplus in group.surplus
    ]
