"""`kbroker group`: consumer groups and how far they are behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kbroker.cli.connection import CommandError, ExitCode, admin_client, bootstrap_option
from kbroker.cli.output import output_option, print_rows

if TYPE_CHECKING:
    from kbroker.client.group_offsets import GroupOffsets

_LISTED = ("group", "state", "protocol_type", "type")
_DESCRIBED = (
    "group",
    "topic",
    "partition",
    "committed_offset",
    "end_offset",
    "lag",
    "member",
    "client_id",
    "host",
    "state",
)


@click.group()
def group() -> None:
    """List and describe consumer groups."""


@group.command("list")
@output_option
@bootstrap_option
def list_groups(bootstrap: str, output: str) -> None:
    """Print one line per group."""
    with admin_client(bootstrap) as client:
        listed = client.list_groups()
    rows = [
        {
            "group": entry["group_id"],
            "state": entry.get("group_state"),
            "protocol_type": entry.get("protocol_type"),
            "type": entry.get("group_type"),
        }
        for entry in sorted(listed, key=lambda entry: str(entry["group_id"]))
    ]
    print_rows(rows, _LISTED, output)


@group.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@output_option
@bootstrap_option
def describe(bootstrap: str, output: str, names: Sequence[str]) -> None:
    """Print each partition of a group: committed offset, end, and the lag between them."""
    from kafka.admin import OffsetSpec

    from kbroker.client.group_offsets import read_groups
    from kbroker.client.partition_offsets import leaders_of, offsets_at

    with admin_client(bootstrap) as client:
        groups = read_groups(client, names)
        topics = sorted({p.topic for group in groups.values() for p in group.committed})
        leaders = leaders_of(client.describe_topics(topics)) if topics else {}
        ends = offsets_at(client, leaders, OffsetSpec.LATEST)
    rows = [
        _row(group, partition, ends)
        for group in groups.values()
        for partition in sorted(group.committed)
    ]
    missing = [name for name, group in groups.items() if group.is_unknown]
    print_rows(rows, _DESCRIBED, output)
    if missing:
        raise CommandError(
            f"no such group: {', '.join(missing)} (see `kbroker group list`)", ExitCode.ITEM_FAILED
        )


def _row(group: GroupOffsets, partition: Any, ends: Mapping[Any, Any]) -> dict[str, Any]:
    from kbroker.client.group_offsets import lag

    committed = group.committed[partition]
    end = ends[partition].offset if partition in ends else None
    owner = group.owners.get(partition)
    return {
        "group": group.name,
        "topic": partition.topic,
        "partition": partition.partition,
        "committed_offset": committed,
        "end_offset": end,
        "lag": lag(committed, end),
        "member": owner.member_id if owner else None,
        "client_id": owner.client_id if owner else None,
        "host": owner.host if owner else None,
        "state": group.state,
    }
