"""`kbroker topic`: list, create, describe, alter, copy, trim and delete topics of a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from kbroker.cli.arguments.completion import topic_names
from kbroker.cli.arguments.connection import bootstrap_option, cluster_links, tell_silent
from kbroker.cli.arguments.refusals import refuse
from kbroker.cli.lazy_commands import LazyCommand, LazyGroup
from kbroker.cli.shown.output import output_option, print_rows, say
from kbroker.cli.topic.changes import alter, create, delete
from kbroker.cli.topic.trim import trim
from kbroker.client.cluster_configs import (
    DEFAULT_ORIGIN,
    Resource,
    Setting,
    describe_configs,
)
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.topic_figures import Described, Figures, ask_figures, leaders_of
from kbroker.client.unknown_names import no_such
from kbroker.config.config_resources import ResourceType
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.model import TopicPartition

_LISTED = ("topic", "partitions", "replication_factor", "records", "size_bytes", "internal")
_DESCRIBED = (
    "topic", "partition", "leader", "leader_epoch", "replicas", "isr", "offline",
    "start_offset", "end_offset", "records", "size_bytes",
)  # fmt: skip
_NO_TOPICS = "no topics (create one with `kbroker topic create NAME`)"
_SETTINGS = ("topic", "setting", "value", "origin")
_COPY = LazyCommand("kbroker.cli.topic.copy", "copy", "Copy the records of a topic to another one.")


@click.group(cls=LazyGroup, commands_by_name={"copy": _COPY})
def topic() -> None:
    """List, create, describe, alter, copy, trim and delete topics."""


for command in (create, alter, delete, trim):
    topic.add_command(command)


@topic.command("list")
@click.option("--internal", is_flag=True, help="Show Kafka's own topics too.")
@output_option
@bootstrap_option
def list_topics(bootstrap: str, output: str, internal: bool) -> None:
    """Print one line per topic.

    RECORDS are the offsets between start and end: compaction and transactions leave some of them
    empty. SIZE_BYTES is what the files of the leaders hold, also deleted records, which go with
    their segment. A figure that no broker knows, as of a partition without a leader, is left out.
    """
    with cluster_links(bootstrap) as links:
        topics = [
            topic for topic in links.describe(None).topics if internal or not topic.is_internal
        ]
        figures = ask_figures(links, leaders_of(topics))
    rows = [_topic_row(topic, figures) for topic in sorted(topics, key=lambda each: str(each.name))]
    print_rows(rows, _LISTED, output)
    tell_silent(links)
    if not rows:
        say(_NO_TOPICS)


@topic.command("describe", short_help="Print partitions, offsets, sizes and settings.")
@click.argument("names", nargs=-1, metavar="[TOPIC...]", shell_complete=topic_names)
@click.option("--all", "shows_all", is_flag=True, help="Show settings that have defaults, too.")
@output_option
@bootstrap_option
def describe(bootstrap: str, output: str, names: Sequence[str], shows_all: bool) -> None:
    """Print partitions with leader, replicas, offsets and sizes, and the settings of each topic
    with their origins.

    ISR are the replicas in sync. OFFLINE are those whose broker, or its disk, is away: a table has
    this column only where there are any.

    The settings are a second table, of those that differ from the defaults. Other outputs have the
    partitions alone: `kbroker config describe --topic NAME` prints the settings in each of them.
    """
    with cluster_links(bootstrap) as links:
        described = {str(topic.name): topic for topic in links.describe(names or None).topics}
        refused = {
            name: topic.error_code for name, topic in described.items() if not topic.partitions
        }
        topics = [topic for name, topic in sorted(described.items()) if name not in refused]
        figures = ask_figures(links, leaders_of(topics))
        settings = _settings(links, topics) if output == "table" and topics else {}
        known = [str(topic.name) for topic in links.describe(None).topics] if refused else []
    rows = [
        _partition_row(str(topic.name), partition, figures)
        for topic in topics
        for partition in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]
    print_rows(rows, _columns(rows, output), output)
    if not rows and not refused:
        say(_NO_TOPICS)
    shown = [
        {"topic": name, "setting": each.name, "value": each.value, "origin": each.origin}
        for (_, name), entries in sorted(settings.items())
        for each in entries
        if shows_all or each.origin != DEFAULT_ORIGIN
    ]
    if shown:
        click.echo()
        print_rows(shown, _SETTINGS, output)
    tell_silent(links)
    refuse(
        [_refusal(name, ErrorCode(code), known) for name, code in refused.items()],
        Trouble.UNKNOWN_TOPIC,
    )


def _columns(rows: Sequence[Mapping[str, Any]], output: str) -> Sequence[str]:
    """Return the columns; a table has none of offline replicas if there are none."""
    shows_offline = output != "table" or any(row["offline"] for row in rows)
    return [name for name in _DESCRIBED if shows_offline or name != "offline"]


def _settings(
    links: ClusterLinks, topics: Sequence[Described]
) -> Mapping[Resource, Sequence[Setting]]:
    """Return the settings of topics; a line says so if we may not know them."""
    resources = [Resource(ResourceType.TOPIC, str(topic.name)) for topic in topics]
    try:
        return describe_configs(links, resources)
    except KafkaError as error:
        say(f"the settings are not known: {error.reason}")
        return {}


def _refusal(name: str, code: ErrorCode, known: Sequence[str]) -> str:
    if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
        return no_such("topic", name, known)
    return f"{name} cannot be described: {code.name}"


def _topic_row(topic: Described, figures: Figures) -> dict[str, Any]:
    name = str(topic.name)
    places = [TopicPartition(name, partition.partition_index) for partition in topic.partitions]
    return {
        "topic": name,
        "partitions": len(topic.partitions),
        "replication_factor": max(
            (len(each.replica_nodes) for each in topic.partitions), default=0
        ),
        "records": _sum([figures.records(place) for place in places]),
        "size_bytes": _sum([figures.sizes.get(place) for place in places]),
        "internal": topic.is_internal,
    }


def _sum(figures: Sequence[int | None]) -> int | None:
    """Return the sum; None if one of the figures is not known."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if len(known) == len(figures) else None


def _partition_row(name: str, partition: Any, figures: Figures) -> dict[str, Any]:
    place = TopicPartition(name, partition.partition_index)
    return {
        **place._asdict(),
        "leader": partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replica_nodes),
        "isr": list(partition.isr_nodes),
        "offline": list(partition.offline_replicas),
        "start_offset": figures.starts.get(place),
        "end_offset": figures.ends.get(place),
        "records": figures.records(place),
        "size_bytes": figures.sizes.get(place),
    }
