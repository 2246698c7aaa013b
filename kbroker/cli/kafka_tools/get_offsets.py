"""kafka-get-offsets: prints the first or end offsets of partitions, or those at a time."""

from __future__ import annotations

import re
from collections.abc import Callable

from kbroker.cli.arguments.connection import cluster_links
from kbroker.cli.kafka_tools.tool_options import BOOTSTRAP, Given, Option, Tool, ToolError
from kbroker.cli.shown.output import print_text, say
from kbroker.client.cluster_links import EARLIEST, LATEST
from kbroker.client.topic_figures import leaders_of, offsets_at
from kbroker.client.topic_rows import rows_of
from kbroker.model import TopicPartition
from kbroker.protocol.messages.list_offsets import MAX_TIMESTAMP

_MOMENTS = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": MAX_TIMESTAMP}
_NONE = -1  # as a leader says it


def _run(given: Given) -> int:
    moment = _moment(given.one("time") or "latest")
    is_wanted = choice_of(given)
    with cluster_links(given.bootstrap()) as links:
        topics = [
            topic
            for topic in links.describe(None).topics
            if not (topic.is_internal and given.has("exclude-internal-topics"))
        ]
        wanted = sorted(place for place, _ in rows_of(topics) if is_wanted(place))
        if not wanted:
            raise ToolError("Could not match any topic-partitions with the specified filters")
        leaders = leaders_of(topics)
        found = offsets_at(
            links, {place: leaders[place] for place in wanted if place in leaders}, moment
        )
    for place in wanted:
        if found.get(place, _NONE) != _NONE:
            print_text(f"{place.topic}:{place.partition}:{found[place]}")
        elif place not in found:
            say(f"{place}: no leader gives its offset")
    return 0


def _moment(text: str) -> int:
    if text in _MOMENTS:
        return _MOMENTS[text]
    try:
        found = int(text)
    except ValueError:
        found = MAX_TIMESTAMP - 1
    if found < MAX_TIMESTAMP:
        raise ToolError(
            f"--time '{text}' is not served here: give earliest (-2), latest (-1), max-timestamp "
            "(-3) or milliseconds since 1970"
        )
    return found


def choice_of(given: Given) -> Callable[[TopicPartition], bool]:
    """Return a function that says whether a partition is asked for."""
    rules = given.one("topic-partitions")
    if rules is not None:
        if given.has("topic") or given.has("partitions"):
            raise ToolError("--topic-partitions excludes --topic and --partitions")
        choices = [_rule(*text.partition(":")[::2]) for text in rules.split(",")]
        return lambda place: any(choice(place) for choice in choices)
    topic = given.one("topic")
    return _rules(topic or "", (given.one("partitions") or "").split(","))


def _rules(topic: str, numbers: list[str]) -> Callable[[TopicPartition], bool]:
    choices = [_rule(topic, text) for text in numbers]
    return lambda place: any(choice(place) for choice in choices)


def _rule(topic: str, numbers: str) -> Callable[[TopicPartition], bool]:
    """Read a pattern of topics, and a number or a range with an exclusive end; empty: all."""
    first, dash, end = (part.strip() for part in numbers.partition("-"))
    try:
        name = re.compile(topic.strip() or ".*")
        low = int(first or 0)
        high = int(end) if end else None
    except (re.error, ValueError) as error:
        raise ToolError(f"Invalid rule of topics and partitions '{topic}:{numbers}'") from error
    if first and not dash:
        high = low + 1
    return lambda place: (
        name.fullmatch(place.topic) is not None
        and place.partition >= low
        and (high is None or place.partition < high)
    )


TOOL = Tool(
    summary="prints TOPIC:PARTITION:OFFSET of partitions.",
    options={
        **BOOTSTRAP,
        "broker-list": Option("Address of a broker.", "HOST:PORT"),
        "topic": Option("A pattern of topics; without one, all.", "TOPIC"),
        "partitions": Option("Numbers of partitions, with commas; without them, all.", "N,..."),
        "topic-partitions": Option("orders:0,orders:2-5,pay.*:-3 and so on.", "TOPIC:N,..."),
        "time": Option(
            "earliest (-2), latest (-1), max-timestamp (-3) or milliseconds since 1970; without "
            "it, latest.",
            "TIME",
        ),
        "exclude-internal-topics": Option("Leave out Kafka's own topics."),
    },
    run=_run,
)
