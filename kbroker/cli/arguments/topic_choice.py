"""The topics that a command names, by name or by pattern, as the cluster has them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.arguments.refusals import no_such, no_such_partition
from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.errors import ErrorCode, Trouble
from kbroker.model import TopicPartition


def existing_topic(cluster: ClusterLinks, name: str) -> TopicView:
    """The topic of this name. CommandError if there is none.

    Raises ClientError, OSError.
    """
    view = cluster.ready_topic(name)
    if view is None:
        sentence = no_such("topic", name, names_of_topics(cluster))
        raise CommandError(sentence, ExitCode.ITEM_FAILED, Trouble.UNKNOWN_TOPIC)
    return view


def check_partitions(view: TopicView, partitions: Collection[int]) -> None:
    """CommandError if the topic has not all of these."""
    unknown = sorted(set(partitions) - set(view.leaders))
    if unknown:
        place = TopicPartition(view.name, unknown[0])
        raise CommandError(no_such_partition(place, len(view.leaders)), ExitCode.ITEM_FAILED)


def names_of_topics(cluster: ClusterLinks) -> list[str]:
    """The names there are, to offer those that are near. Raises OSError."""
    return [view.name for view in cluster.topics(None)]


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern of whole names. UsageError if it is none."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise click.UsageError(f"--pattern '{pattern}': {error}") from error


def matching(cluster: ClusterLinks, pattern: re.Pattern[str]) -> list[TopicView]:
    """The topics whose whole names match now, Kafka's own ones left out. Raises OSError."""
    return [
        view
        for view in cluster.topics(None)
        if not view.is_internal and view.code == ErrorCode.NONE and pattern.fullmatch(view.name)
    ]


def chosen(
    cluster: ClusterLinks, names: Sequence[str], pattern: re.Pattern[str] | None
) -> list[TopicView]:
    """The topics of these names and those that match. CommandError if a name, or the pattern,
    stands for none.

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
