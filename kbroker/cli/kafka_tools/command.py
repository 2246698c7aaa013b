"""`kbroker kafka-tool`: Kafka's own tools by their names, also in the image's /opt/kafka/bin."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from importlib import metadata

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.kafka_tools.tool_options import Tool, ToolError, help_text, read
from kbroker.near_names import did_you_mean

_ROOM = "kbroker.cli.kafka_tools"
TOOLS: Mapping[str, str] = {  # the module of each, which has it as TOOL
    "acls": "acls",
    "broker-api-versions": "broker_api_versions",
    "configs": "configs",
    "console-consumer": "console_consumer",
    "console-producer": "console_producer",
    "consumer-groups": "consumer_groups",
    "get-offsets": "get_offsets",
    "server-start": "server_start",
    "storage": "storage",
    "topics": "topics",
}
INSTEAD: Mapping[str, str] = {  # our command for what a tool does that is not here
    "cluster": "kbroker cluster status",
    "delete-records": "kbroker topic trim",
    "dump-log": "kbroker log dump",
    "features": "kbroker cluster features",
    "groups": "kbroker group list",
    "leader-election": "kbroker cluster elect",
    "log-dirs": "kbroker log stats",
    "reassign-partitions": "kbroker cluster reassign",
    "transactions": "kbroker txn",
}


@click.command("kafka-tool", context_settings={"allow_interspersed_args": False})
@click.argument("name", metavar="TOOL")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[OPTION]...")
def kafka_tool(name: str, arguments: Sequence[str]) -> None:
    """Do what a tool of Apache Kafka does, with its options and its output: kafka-topics,
    kafka-configs, kafka-console-producer, kafka-console-consumer, kafka-consumer-groups,
    kafka-get-offsets, kafka-acls, kafka-broker-api-versions, kafka-server-start or kafka-storage.

    The image has them as /opt/kafka/bin/kafka-topics.sh and so on. `kbroker kafka-tool TOOL --help`
    prints the options that are served; others are refused by their name. Exit code 1 is that of any
    error, as in Kafka.
    """
    short = name.removesuffix(".sh").removeprefix("kafka-")
    if short in INSTEAD:
        raise click.UsageError(
            f"kafka-{short} is not served: `{INSTEAD[short]}` does what it is for"
        )
    if short not in TOOLS:
        raise click.UsageError(
            f"no such tool: {name}{did_you_mean(short, TOOLS)} (there are {', '.join(TOOLS)})"
        )
    raise click.exceptions.Exit(_code(short, tool_of(short), arguments))


def tool_of(name: str) -> Tool:
    """Import and return the tool of one of these names."""
    tool: Tool = importlib.import_module(f"{_ROOM}.{TOOLS[name]}").TOOL
    return tool


def _code(name: str, tool: Tool, arguments: Sequence[str]) -> int:
    """Run a tool, and return the exit code that Kafka's tools have for errors, or its own."""
    try:
        given = read(tool, arguments)
        if given.has("help"):
            click.echo(help_text(name, tool))
            return ExitCode.FINE
        if given.has("version"):
            click.echo(f"kbroker {metadata.version('kbroker')}")
            return ExitCode.FINE
        return tool.run(given)
    except ToolError as error:
        CommandError(f"kafka-{name}: {error}").show()
    except click.UsageError as error:
        CommandError(error.format_message()).show()
    except CommandError as error:
        error.show()
    return ExitCode.ITEM_FAILED
