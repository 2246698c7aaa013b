"""kafka-topics: lists, describes, creates, grows and deletes topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbroker.cli.arguments.connection import cluster_links
from kbroker.cli.kafka_tools.tool_options import (
    BOOTSTRAP,
    Given,
    Option,
    Tool,
    ToolError,
    pairs,
    pattern_of,
)
from kbroker.cli.kafka_tools.topic_description import FILTERS, OVERRIDES, description
from kbroker.cli.shown.output import print_text
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.topic_figures import Described
from kbroker.client.topic_requests import (
    BROKERS_DEFAULT,
    create_topics,
    delete_topics,
    grow_topic,
)
from kbroker.errors import ErrorCode

_COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
    "could collide. To avoid issues it is best to use either, but not both."
)


class _RefusedError(Exception):
    """The cluster refuses; the message is Kafka's sentence."""


def _run(given: Given) -> int:
    action = given.action("list", "describe", "create", "alter", "delete")
    with cluster_links(given.bootstrap()) as links:
        try:
            _ACTIONS[action](links, given)
        except _RefusedError as error:
            print_text(f"Error while executing topic command : {error}")
            return 1
    return 0


def _list(links: ClusterLinks, given: Given) -> None:
    print_text("\n".join(str(topic.name) for topic in _chosen(links, given)))


def _describe(links: ClusterLinks, given: Given) -> None:
    only = given.at_most_one(*FILTERS, OVERRIDES)
    for line in description(links, _existing(links, given), only):
        print_text(line)


def _create(links: ClusterLinks, given: Given) -> None:
    name = given.needed("topic")
    if "." in name or "_" in name:
        print_text(_COLLISION)
    partitions, factor = given.number("partitions"), given.number("replication-factor")
    replicas = _replicas(given)
    if replicas and not (partitions is None and factor is None):
        raise ToolError("--replica-assignment says both --partitions and --replication-factor")
    (result,) = create_topics(
        links,
        [name],
        pairs("config", given.all("config")),
        partitions=BROKERS_DEFAULT if partitions is None else partitions,
        replication_factor=BROKERS_DEFAULT if factor is None else factor,
        replicas=replicas,
    )
    if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and given.has("if-not-exists"):
        return
    _check(result)
    print_text(f"Created topic {name}.")


def _alter(links: ClusterLinks, given: Given) -> None:
    given.needed("topic")
    partitions = given.number("partitions")
    if partitions is None:
        raise ToolError('Missing required argument "[partitions]"')
    replicas = _replicas(given)
    for topic in _existing(links, given):
        new = replicas[len(topic.partitions) :] if replicas else None
        _check(grow_topic(links, str(topic.name), partitions, new))


def _replicas(given: Given) -> list[list[int]]:
    """Return the brokers of each partition as given by `0:1,1:2`; none if they are not."""
    found = []
    for number, text in enumerate((given.one("replica-assignment") or "").split(",")):
        words = [word.strip() for word in text.split(":")]
        if not text:
            continue
        wrong = [word for word in words if not word.isdecimal()]
        if wrong:
            raise _RefusedError(f'For input string: "{wrong[0]}"')
        brokers = [int(word) for word in words]
        twice = sorted({each for each in brokers if brokers.count(each) > 1})
        if twice:
            names = ",".join(map(str, twice))
            raise _RefusedError(
                f"Partition replica lists may not contain duplicate entries: {names}"
            )
        found.append(brokers)
        if len(brokers) != len(found[0]):
            raise _RefusedError(f"Partition {number} has different replication factor: {brokers}")
    return found


def _delete(links: ClusterLinks, given: Given) -> None:
    given.needed("topic")
    for result in delete_topics(links, [str(topic.name) for topic in _existing(links, given)]):
        _check(result)


def _chosen(links: ClusterLinks, given: Given) -> Sequence[Described]:
    """Return the topics that `--topic`, a list of patterns of whole names, stands for, by name."""
    pattern = given.one("topic")
    wanted = pattern_of("topic", ".*" if pattern is None else pattern)
    found = [
        topic
        for topic in links.describe(None).topics
        if wanted.fullmatch(str(topic.name))
        and not (topic.is_internal and given.has("exclude-internal"))
    ]
    return sorted(found, key=lambda topic: str(topic.name))


def _existing(links: ClusterLinks, given: Given) -> Sequence[Described]:
    found = _chosen(links, given)
    if not found and given.has("topic") and not given.has("if-exists"):
        raise _RefusedError(f"Topic '{given.one('topic')}' does not exist as expected")
    return found


def _check(result: Any) -> None:
    if result.error_code != ErrorCode.NONE:
        raise _RefusedError(result.error_message or ErrorCode(result.error_code).name)


_ACTIONS = {
    "list": _list,
    "describe": _describe,
    "create": _create,
    "alter": _alter,
    "delete": _delete,
}
TOOL = Tool(
    summary="lists, describes, creates, grows and deletes topics.",
    options={
        **BOOTSTRAP,
        "list": Option("Print the names of topics."),
        "describe": Option("Print the partitions and settings of topics."),
        "create": Option("Create a topic."),
        "alter": Option("Add partitions to topics."),
        "delete": Option("Delete topics."),
        "topic": Option(
            "Name of the topic to create; else a pattern of names, or several with commas.", "TOPIC"
        ),
        "partitions": Option("How many the topic has, or gets.", "NUMBER", of=("create", "alter")),
        "replication-factor": Option("Replicas of each partition.", "NUMBER", of=("create",)),
        "replica-assignment": Option(
            "The brokers of each partition, in place of both numbers.",
            "0:1,1:2,...",
            of=("create", "alter"),
        ),
        "config": Option(
            "A setting of the topic to create; may be repeated.", "KEY=VALUE", of=("create",)
        ),
        "if-not-exists": Option("A topic that is there already is fine.", of=("create",)),
        "if-exists": Option(
            "A topic that is not there is fine.", of=("alter", "delete", "describe")
        ),
        "exclude-internal": Option("Leave out Kafka's own topics.", of=("list", "describe")),
        OVERRIDES: Option("Describe only topics with settings of their own.", of=("describe",)),
        **{name: Option(each.help, of=("describe",)) for name, each in FILTERS.items()},
    },
    run=_run,
)
