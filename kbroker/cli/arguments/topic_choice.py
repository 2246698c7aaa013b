"""The topics that a command names, by name or by pattern, as the cluster has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

import click

from kbroker.cli.arguments.connection import CommandError, CommandT, ExitCode
from kbroker.cli.arguments.refusals import refuse
from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.client.unknown_names import no_such, no_such_partition
from kbroker.errors import ErrorCode, Trouble
from kbroker.model import TopicPartition
from kbroker.protocol.messages.metadata import MetadataResponse

Described = MetadataResponse.MetadataResponseTopic


def partitions_option(
    text: str = "Only this partition; may be repeated.",
) -> Callable[[CommandT], CommandT]:
    """Return the `--partition` option of a command, which gets `numbers`; `text` is its help."""
    return click.option("--partition", "numbers", type=int, multiple=True, help=text)


def described_topics(topics: Iterable[Described], names: Collection[str]) -> dict[str, Described]:
    """Return the topics of these names, or all; CommandError for those that are not there."""
    known = {str(topic.name): topic for topic in topics}
    missing = [no_such("topic", name, known) for name in names if name not in known]
    refuse(missing, Trouble.UNKNOWN_TOPIC)
    return {name: known[name] for name in dict.fromkeys(names or known)}


def existing_topic(cluster: ClusterLinks, name: str) -> TopicView:
    """Return the topic of this name; CommandError if there is none.

    Raises ClientError, OSError.
    """
    view = cluster.ready_topic(name)
    if view is None:
        sentence = no_such("topic", name, names_of_topics(cluster))
        raise CommandError(sentence, ExitCode.ITEM_FAILED, Trouble.UNKNOWN_TOPIC)
    return view


def check_partitions(view: TopicView, partitions: Collection[int]) -> None:
    """Raise CommandError if the topic lacks one of these partitions."""
    unknown = sorted(set(partitions) - set(view.leaders))
    if unknown:
        place = TopicPartition(view.name, unknown[0])
        raise CommandError(no_such_partition(place, len(view.leaders)), ExitCode.ITEM_FAILED)


def names_of_topics(cluster: ClusterLinks) -> list[str]:
    """Return the names of all topics, to offer those that are near. Raises OSError."""
    return [view.name for view in cluster.topics(None)]


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of whole names. UsageError if it is malformed."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise click.UsageError(f"--pattern '{pattern}': {error}") from error


def matching(cluster: ClusterLinks, pattern: re.Pattern[str]) -> list[TopicView]:
    """Return the topics whose whole names match now, without Kafka's own. Raises OSError."""
    return [
        view
        for view in cluster.topics(None)
        if not view.is_internal and view.code == ErrorCode.NONE and pattern.fullmatch(view.name)
    ]


def chosen(
    cluster: ClusterLinks, names: Sequence[str], pattern: re.Pattern[str] | None
) -> list[TopicView]:
    """Return the topics of these names and those that match. CommandError if a name, or the
    pattern, stands for none.

    Raises ClientError, OSError.
    """
    found = {name: existing_topic(cluster, name) for name in names}
    if pattern is not None:
        matches = matching(cluster, pattern)
        if not matches:
            reason = f"no topic matches '{pattern.pattern}' (see `kbroker topic list`)"
            raise CommandError(reason, ExitCode.ITEM_FAILED)
        found |= {
            view.name: view if view.is_ready else existing_topic(cluster, view.name)
            for view in matches
            if view.name not in found
        }
    return list(found.values())
