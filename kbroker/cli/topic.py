"""`kbroker topic`: list, create, describe, alter, trim and delete topics of a running broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from kbroker.cli.connection import CommandError, ExitCode, admin_client, bootstrap_option
from kbroker.cli.output import output_option, print_rows, say
from kbroker.cli.topic_trim import trim
from kbroker.errors import ErrorCode

_DESCRIBED = (
    "topic",
    "partition",
    "leader",
    "leader_epoch",
    "replicas",
    "isr",
    "start_offset",
    "end_offset",
)


@click.group()
def topic() -> None:
    """List, create, describe, alter, trim and delete topics."""


topic.add_command(trim)


@topic.command("list")
@click.option("--internal", is_flag=True, help="Show Kafka's own topics too.")
@output_option
@bootstrap_option
def list_topics(bootstrap: str, output: str, internal: bool) -> None:
    """Print one line per topic."""
    with admin_client(bootstrap) as client:
        described = client.describe_topics()
    rows = [
        {
            "topic": entry["name"],
            "partitions": len(entry["partitions"]),
            "replication_factor": max(
                (len(p["replica_nodes"]) for p in entry["partitions"]), default=0
            ),
        }
        for entry in sorted(described, key=lambda entry: str(entry["name"]))
        if internal or not entry["is_internal"]
    ]
    print_rows(rows, ("topic", "partitions", "replication_factor"), output)


@topic.command("create")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option(
    "--partitions",
    type=int,
    default=-1,
    help="Number of partitions (default: num.partitions of the broker).",
)
@click.option(
    "--replication-factor",
    type=int,
    default=-1,
    help="Replicas per partition (default: the broker's).",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A topic setting; may be repeated.",
)
@click.option("--if-not-exists", is_flag=True, help="An existing topic is fine.")
@bootstrap_option
def create(  # one parameter per option
    bootstrap: str,
    names: Sequence[str],
    partitions: int,
    replication_factor: int,
    configs: Sequence[str],
    if_not_exists: bool,
) -> None:
    """Create topics."""
    wanted = {
        "num_partitions": partitions,
        "replication_factor": replication_factor,
        "configs": _pairs(configs),
    }
    with admin_client(bootstrap) as client:
        answer = client.create_topics(dict.fromkeys(names, wanted), raise_errors=False)
    fine = {ErrorCode.TOPIC_ALREADY_EXISTS} if if_not_exists else set()
    _report(answer["topics"], "created", fine)


@topic.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--if-exists", is_flag=True, help="A missing topic is fine.")
@bootstrap_option
def delete(bootstrap: str, names: Sequence[str], if_exists: bool) -> None:
    """Delete topics with all their records."""
    with admin_client(bootstrap) as client:
        answer = client.delete_topics(list(names), raise_errors=False)
    _report(
        answer["topics"], "deleted", {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} if if_exists else set()
    )


@topic.command("describe")
@click.argument("names", nargs=-1, metavar="[TOPIC...]")
@output_option
@bootstrap_option
def describe(bootstrap: str, output: str, names: Sequence[str]) -> None:
    """Print partitions with leader, replicas and offsets; settings that differ from the defaults on
    standard error.
    """
    from kafka.admin import ConfigResource, OffsetSpec

    from kbroker.client.partition_offsets import leaders_of, offsets_at

    with admin_client(bootstrap) as client:
        described = client.describe_topics(list(names) or None)
        missing = [entry["name"] for entry in described if entry["error_code"]]
        described = [entry for entry in described if not entry["error_code"]]
        leaders = leaders_of(described)
        starts = offsets_at(client, leaders, OffsetSpec.EARLIEST)
        ends = offsets_at(client, leaders, OffsetSpec.LATEST)
        resources = [ConfigResource("TOPIC", entry["name"]) for entry in described]
        configs = client.describe_configs(resources).get("topic", {}) if resources else {}
    rows = [
        _partition_row(entry["name"], p, starts, ends)
        for entry in sorted(described, key=lambda entry: str(entry["name"]))
        for p in sorted(entry["partitions"], key=lambda p: int(p["partition_index"]))
    ]
    print_rows(rows, _DESCRIBED, output)
    for name, settings in sorted(configs.items()):
        for key, value in sorted(settings.items()):
            say(f"{name}: {key}={value['value']}")
    if missing:
        raise CommandError(f"no such topic: {', '.join(missing)}", ExitCode.ITEM_FAILED)


@topic.command("alter")
@click.argument("name", metavar="TOPIC")
@click.option("--partitions", type=int, help="Grow to this number of partitions.")
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a topic setting; may be repeated.",
)
@click.option(
    "--delete-config",
    "deleted",
    multiple=True,
    metavar="KEY",
    help="Go back to the default of a setting.",
)
@bootstrap_option
def alter(
    bootstrap: str,
    name: str,
    partitions: int | None,
    configs: Sequence[str],
    deleted: Sequence[str],
) -> None:
    """Add partitions to a topic, or change its settings."""
    from kafka.admin import ConfigResource

    changes: dict[str, tuple[str, str | None]] = {
        key: ("SET", value) for key, value in _pairs(configs).items()
    }
    changes |= dict.fromkeys(deleted, ("DELETE", None))
    if partitions is None and not changes:
        raise click.UsageError("nothing to alter: give --partitions, --config or --delete-config")
    with admin_client(bootstrap) as client:
        if partitions is not None:
            answer = client.create_partitions({name: partitions}, raise_errors=False)
            results = [entry.to_dict() for entry in answer.results]
            _report(results, f"{partitions} partitions", set())
        if changes:
            resource = ConfigResource("TOPIC", name, configs=changes)
            # The client would look the names up first, and blame them when the topic is unknown.
            outcome = client.alter_configs([resource], raise_on_unknown=False)["topic"][name]
            if outcome != "OK":
                raise CommandError(f"{name}: {outcome}", ExitCode.ITEM_FAILED)
            say(f"{name}: {', '.join(sorted(changes))} altered")


def _partition_row(
    name: str, partition: Mapping[str, Any], starts: Mapping[Any, Any], ends: Mapping[Any, Any]
) -> dict[str, Any]:
    key = (name, partition["partition_index"])
    return {
        "topic": name,
        "partition": partition["partition_index"],
        "leader": partition["leader_id"],
        "leader_epoch": partition.get("leader_epoch"),
        "replicas": list(partition["replica_nodes"]),
        "isr": list(partition["isr_nodes"]),
        "start_offset": starts[key].offset if key in starts else None,
        "end_offset": ends[key].offset if key in ends else None,
    }


def _pairs(values: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for value in values:
        key, separator, text = value.partition("=")
        if not separator or not key:
            raise click.UsageError(f"'{value}' is no KEY=VALUE")
        pairs[key] = text
    return pairs


def _report(entries: Sequence[Mapping[str, Any]], done: str, fine: set[ErrorCode]) -> None:
    failed = False
    for entry in entries:
        code = ErrorCode(entry["error_code"])
        if code is ErrorCode.NONE:
            say(f"{entry['name']}: {done}")
        elif code in fine:
            say(f"{entry['name']}: nothing to do ({code.name})")
        else:
            failed = True
            say(
                f"{entry['name']}: {code.name}: "
                f"{entry.get('error_message') or 'refused by the broker'}"
            )
    if failed:
        raise click.exceptions.Exit(ExitCode.ITEM_FAILED)
