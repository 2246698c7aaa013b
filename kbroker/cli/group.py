"""`kbroker group`: consumer groups and how far they are behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kbroker.cli.connection import EXIT_ITEM_FAILED, CommandError, admin_client, bootstrap_option
from kbroker.cli.output import output_option, print_rows

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

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
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    with admin_client(bootstrap) as client:
        described = client.describe_groups(list(names))
        for name in names:
            found = _rows_of(client, name, described[name])
            rows += found
            if not found and described[name]["group_state"] == "Dead":
                missing.append(name)
    print_rows(rows, _DESCRIBED, output)
    if missing:
        raise CommandError(
            f"no such group: {', '.join(missing)} (see `kbroker group list`)", EXIT_ITEM_FAILED
        )


def _rows_of(
    client: KafkaAdminClient, name: str, described: Mapping[str, Any]
) -> list[dict[str, Any]]:
    from kafka.admin import OffsetSpec
    from kafka.structs import TopicPartition

    owners = {
        TopicPartition(entry["topic"], partition): member
        for member in described["members"]
        for entry in (member["member_assignment"] or {}).get("assigned_partitions", [])
        for partition in entry["partitions"]
    }
    committed = client.list_group_offsets([name])[name]
    partitions = sorted(set(owners) | set(committed))
    ends = (
        client.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        if partitions
        else {}
    )
    return [
        _row(
            name,
            described["group_state"],
            partition,
            (committed.get(partition), ends[partition]),
            owners,
        )
        for partition in partitions
    ]


def _row(
    name: str,
    state: str,
    partition: Any,
    offsets: tuple[Any, Any],
    owners: Mapping[Any, Mapping[str, Any]],
) -> dict[str, Any]:
    committed = offsets[0].offset if offsets[0] is not None and offsets[0].offset >= 0 else None
    end = offsets[1].offset
    owner = owners.get(partition, {})
    return {
        "group": name,
        "topic": partition.topic,
        "partition": partition.partition,
        "committed_offset": committed,
        "end_offset": end,
        "lag": None if committed is None else max(0, end - committed),
        "member": owner.get("member_id"),
        "client_id": owner.get("client_id"),
        "host": owner.get("client_host"),
        "state": state,
    }
