"""kafka-console-consumer: prints records as they come, by Kafka's options and in its form."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from kbroker.cli.arguments.connection import cluster_links
from kbroker.cli.arguments.topic_choice import matching
from kbroker.cli.kafka_tools.idle_alarm import IdleAlarm
from kbroker.cli.kafka_tools.record_lines import RecordLines, line_form
from kbroker.cli.kafka_tools.tool_options import (
    BOOTSTRAP,
    Given,
    Option,
    Tool,
    ToolError,
    pairs,
    pattern_of,
)
from kbroker.cli.records.chosen_records import COMMITTED, Choice, print_chosen
from kbroker.cli.shown.output import say
from kbroker.client.cluster_configs import Resource, describe_configs
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.record_places import END, START, Kind, Place
from kbroker.config.config_resources import ResourceType

_ENDS = {"earliest": START, "latest": END}
_OWN = ("group.id", "auto.offset.reset", "isolation.level")
_TIME_TYPE = "message.timestamp.type"


def _run(given: Given) -> int:
    properties = pairs("consumer-property", given.all("command-property", "consumer-property"))
    own = {name: properties.pop(name) for name in _OWN if name in properties}
    bootstrap = given.bootstrap("consumer.config", properties=properties)
    choice = choice_of(given, own)
    form = line_form(_form_properties(given))
    most = given.number("max-messages")
    with cluster_links(bootstrap) as links:
        for name in choice.names:
            links.ready_topic(name, creates=True)  # Java's consumer has it created too
        words = _time_words(links, choice) if form.flags["print.timestamp"] else {}
    alarm = IdleAlarm(given.number("timeout-ms"), most)
    printer = RecordLines(form, sys.stdout.buffer, words, alarm)
    try:
        alarm.start()
        print_chosen(bootstrap, choice, most, printer).refuse_if_any()
    except KeyboardInterrupt:
        if not alarm.has_rung:
            raise
    finally:
        alarm.stop()
        say(f"Processed a total of {printer.printed} messages")
    return 0


def choice_of(given: Given, own: Mapping[str, str]) -> Choice:
    """Return what to read; `own`: properties of a consumer that say so too. ToolError if the
    options contradict each other.
    """
    topic, pattern = given.one("topic"), given.one("include", "whitelist")
    if (topic is None) == (pattern is None):
        raise ToolError("Exactly one of --include/--topic is required.")
    group = given.one("group") or own.get("group.id")
    partition, start = given.number("partition"), given.one("offset")
    if partition is not None and group is not None:
        raise ToolError("Options group and partition cannot be specified together.")
    if start is not None and partition is None:
        raise ToolError("The partition is required when offset is specified.")
    begins = given.has("from-beginning") or own.get("auto.offset.reset") == "earliest"
    choice = Choice(
        names=() if topic is None else (topic,),
        pattern=None if pattern is None else pattern_of("include", pattern),
        partitions=() if partition is None else (partition,),
        start=_place(start) if start is not None else START if begins else END,
        end=None,
        follow=True,
        isolation=_isolation(given.one("isolation-level") or own.get("isolation.level")),
        group=group,
    )
    choice.check()
    return choice


def _place(text: str) -> Place:
    if text in _ENDS:
        return _ENDS[text]
    if not text.isascii() or not text.isdecimal():
        raise ToolError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', "
            "'latest', or a non-negative long."
        )
    return Place(Kind.OFFSET, int(text))


def _isolation(text: str | None) -> str:
    found = text or "read_uncommitted"
    if found not in (COMMITTED, "read_uncommitted"):
        raise ToolError(f"--isolation-level '{found}' is none of {COMMITTED}, read_uncommitted")
    return found


def _form_properties(given: Given) -> dict[str, str]:
    properties = pairs("property", given.all("property", "formatter-property"))
    for field in ("key", "value"):
        deserializer = given.one(f"{field}-deserializer")
        if deserializer is not None:
            properties[f"{field}.deserializer"] = deserializer
    return properties


def _time_words(links: ClusterLinks, choice: Choice) -> dict[str, str]:
    """Return the word for the time of a record, by topic."""
    names = list(choice.names)
    if choice.pattern is not None:
        names = [view.name for view in matching(links, choice.pattern)]
    resources = [Resource(ResourceType.TOPIC, name) for name in names]
    found = describe_configs(links, resources, [_TIME_TYPE]) if resources else {}
    return {
        resource.name: str(setting.value) for resource, (setting,) in found.items() if setting.value
    }


TOOL = Tool(
    summary="prints the records of topics as they come.",
    options={
        **BOOTSTRAP,
        "topic": Option("Which topic.", "TOPIC"),
        "include": Option("All topics whose whole name matches.", "REGEX"),
        "whitelist": Option("The same.", "REGEX"),
        "from-beginning": Option("Begin at the start, if a group has no offset."),
        "max-messages": Option("Stop after so many records.", "NUMBER"),
        "timeout-ms": Option("Stop when none has come for so long.", "MS"),
        "group": Option("Read as a member of this group, and commit its offsets.", "NAME"),
        "partition": Option("Only this partition.", "NUMBER"),
        "offset": Option("Begin at earliest, latest or this offset of the partition.", "OFFSET"),
        "isolation-level": Option("read_committed leaves out open and aborted ones.", "LEVEL"),
        "property": Option(
            "print.key, print.value, print.timestamp, print.partition, print.offset, print.headers "
            "(true or false), key.separator, line.separator, headers.separator, null.literal, "
            "key.deserializer, value.deserializer or headers.deserializer.",
            "KEY=VALUE",
        ),
        "formatter-property": Option("The same.", "KEY=VALUE"),
        "key-deserializer": Option("What keys are, by the name of Java's class.", "CLASS"),
        "value-deserializer": Option("What values are.", "CLASS"),
        "consumer.config": Option("Properties of a client, for TLS and logins.", "FILE"),
        "command-property": Option("A property of a client; may be repeated.", "KEY=VALUE"),
        "consumer-property": Option("The same.", "KEY=VALUE"),
    },
    run=_run,
)
