"""`kbroker topic create`, `alter` and `delete`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from kbroker.cli.arguments.completion import topic_names
from kbroker.cli.arguments.connection import CONTROLLER_MOVED, bootstrap_option, cluster_links
from kbroker.cli.arguments.refusals import no_such, refuse, shown
from kbroker.cli.arguments.setting_changes import changed, key_values, near_setting, topic_settings
from kbroker.cli.arguments.topic_choice import described_topics
from kbroker.cli.shown.output import counted, say
from kbroker.client.cluster_configs import Resource
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.topic_requests import (
    BROKERS_DEFAULT,
    TIMEOUT_MS,
    create_topics,
    delete_topics,
    grow_topic,
)
from kbroker.config.config_resources import ResourceType
from kbroker.errors import ErrorCode, Trouble
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

_LOST = {
    GROUP_METADATA_TOPIC: "the committed offsets of all groups are in it",
    TRANSACTION_STATE_TOPIC: "the transactions of all producers are in it",
}


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option(
    "--partitions",
    type=int,
    default=BROKERS_DEFAULT,
    help="Number of partitions (default: num.partitions of the broker).",
)
@click.option(
    "--replication-factor",
    type=int,
    default=BROKERS_DEFAULT,
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
def create(
    bootstrap: str,
    names: Sequence[str],
    partitions: int,
    replication_factor: int,
    configs: Sequence[str],
    if_not_exists: bool,
) -> None:
    """Create one topic, or several."""
    settings = key_values("--config", configs)
    with cluster_links(bootstrap) as links:
        failures = made_topics(
            links,
            names,
            settings,
            partitions=partitions,
            replication_factor=replication_factor,
            may_exist=if_not_exists,
        )
    refuse_topics(failures)


class Refusal(NamedTuple):
    """The reason why a topic was not created, or not grown."""

    sentence: str
    code: ErrorCode

    @property
    def may_pass(self) -> bool:
        """Whether the reason may go away by itself, as when a broker for a replica comes back."""
        return self.code.retriable or self.code is ErrorCode.INVALID_REPLICATION_FACTOR


def refuse_topics(refusals: Iterable[Refusal]) -> None:
    refuse([each.sentence for each in refusals])


def made_topics(
    links: ClusterLinks,
    names: Sequence[str],
    settings: Mapping[str, str],
    *,
    partitions: int,
    replication_factor: int = BROKERS_DEFAULT,
    may_exist: bool = False,
) -> list[Refusal]:
    """Create topics and say so; return the refusals.

    Raises ClientError and OSError if no controller answers.
    """
    failures = []
    for result in create_topics(
        links, names, settings, partitions=partitions, replication_factor=replication_factor
    ):
        if result.error_code == ErrorCode.NONE:
            say(f"{result.name}: created")
        elif result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            failures.append(_refusal(result, settings))
        elif _is_going(links, str(result.name)):
            sentence = (
                f"topic {result.name} is still being deleted: it goes once all brokers of its "
                "replicas are there (TOPIC_ALREADY_EXISTS)"
            )
            failures.append(Refusal(sentence, ErrorCode.TOPIC_ALREADY_EXISTS))
        elif may_exist:
            say(f"{result.name}: nothing to do, it exists already")
        else:
            sentence = (
                f"topic {result.name} exists already, which is fine with --if-not-exists "
                "(TOPIC_ALREADY_EXISTS)"
            )
            failures.append(Refusal(sentence, ErrorCode.TOPIC_ALREADY_EXISTS))
    return failures


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=topic_names)
@click.option("--if-exists", is_flag=True, help="A missing topic is fine.")
@click.option("--force", is_flag=True, help="Delete Kafka's own topics too.")
@bootstrap_option
def delete(bootstrap: str, names: Sequence[str], if_exists: bool, force: bool) -> None:
    """Delete topics with all their records."""
    failures, missing = [], []
    with cluster_links(bootstrap) as links:
        known = described_topics(links.describe(None).topics, ())
        wanted = []
        for name in dict.fromkeys(names):
            if name not in known:
                missing += _missing(name, known, if_exists=if_exists)
            elif known[name].is_internal and not force:
                lost = _LOST.get(name, "the brokers keep their own records in it")
                failures.append(f"{name} was not deleted: {lost} (--force deletes it anyway)")
            else:
                wanted.append(name)
        results = delete_topics(links, wanted)
    for result in results:
        if result.error_code == ErrorCode.NONE:
            say(f"{result.name}: deleted")
        elif result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # since it was described
            missing += _missing(str(result.name), known, if_exists=if_exists)
        else:
            failures.append(deletion_refusal(result))
    refuse([*failures, *missing], Trouble.UNKNOWN_TOPIC if missing else None)


@click.command()
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
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
    settings = key_values("--config", configs)
    if partitions is None and not settings and not deleted:
        raise click.UsageError("nothing to alter: give --partitions, --config or --delete-config")
    with cluster_links(bootstrap) as links:
        described_topics(links.describe(None).topics, [name])
        if partitions is not None:
            refuse_topics(grown(links, name, partitions))
        if settings or deleted:
            resource = Resource(ResourceType.TOPIC, name)
            refuse(changed(links, [resource], sets=settings, deletes=deleted))


def grown(links: ClusterLinks, name: str, partitions: int) -> list[Refusal]:
    """Add partitions to a topic and say so; return the refusal, if there is one.

    Raises ClientError and OSError if no controller answers.
    """
    result = grow_topic(links, name, partitions)
    if result.error_code != ErrorCode.NONE:
        return [_refusal(result, {})]
    say(f"{name}: {counted(partitions, 'partition')}")
    return []


def _missing(name: str, known: Iterable[str], *, if_exists: bool) -> list[str]:
    if not if_exists:
        return [no_such("topic", name, known)]
    say(f"{name}: nothing to do, there is no such topic")
    return []


def _is_going(links: ClusterLinks, name: str) -> bool:
    """Say whether a topic that exists already is being deleted, and no longer described."""
    is_seen = links.topic(name).code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return not is_seen and links.ready_topic(name) is None


def deletion_refusal(result: Any) -> str:
    """Return the controller's refusal to delete a topic."""
    waits = f"it was not gone within {TIMEOUT_MS // 1000} s, and goes once its brokers are there"
    return f"{shown(str(result.name))}: {_worded(result, waits)}"


def _worded(result: Any, waits: str) -> str:
    """Return the words of a controller, or ours if it gave only its code; `waits` are those for
    REQUEST_TIMED_OUT.
    """
    code = ErrorCode(result.error_code)
    reason = result.error_message or {
        ErrorCode.REQUEST_TIMED_OUT: waits,
        ErrorCode.NOT_CONTROLLER: CONTROLLER_MOVED,
        ErrorCode.KAFKA_STORAGE_ERROR: (
            "a disk of the controller is full, or has failed, as its log says"
        ),
        ErrorCode.TOPIC_DELETION_DISABLED: "the brokers have delete.topic.enable=false",
    }.get(code)
    return f"{reason} ({code.name})" if reason else code.name


def _refusal(result: Any, settings: Mapping[str, str]) -> Refusal:
    """Return the controller's refusal of a topic, with names close to unknown settings."""
    code = ErrorCode(result.error_code)
    said = _worded(
        result,
        f"its partitions have no leader within {TIMEOUT_MS // 1000} s: `kbroker topic describe "
        f"{result.name}` shows whether one comes, and the log of their broker says what it lacks, "
        "such as space on its disk",
    )
    hint = near_setting(settings, topic_settings()) if code == ErrorCode.INVALID_CONFIG else ""
    return Refusal(f"{shown(str(result.name))}: {said}{hint}", code)
