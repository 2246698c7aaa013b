"""`kbroker topic create`, `alter` and `delete`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from kbroker.cli.arguments.completion import topic_names
from kbroker.cli.arguments.connection import bootstrap_option, cluster_links
from kbroker.cli.arguments.key_values import key_values
from kbroker.cli.arguments.refusals import refuse
from kbroker.cli.arguments.topic_choice import described_topics
from kbroker.cli.shown.output import say
from kbroker.client.cluster_configs import Resource
from kbroker.client.setting_changes import SettingChanges, changed
from kbroker.client.topic_changes import Refusal, deletion_refusal, grown, made_topics
from kbroker.client.topic_requests import BROKERS_DEFAULT, delete_topics
from kbroker.client.unknown_names import no_such
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
            say,
            partitions=partitions,
            replication_factor=replication_factor,
            may_exist=if_not_exists,
        )
    refuse_topics(failures)


def refuse_topics(refusals: Iterable[Refusal]) -> None:
    refuse([each.sentence for each in refusals])


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
            refuse_topics(grown(links, name, partitions, say))
        if settings or deleted:
            resource = Resource(ResourceType.TOPIC, name)
            refuse(changed(links, [resource], SettingChanges(settings, deleted), say))


def _missing(name: str, known: Iterable[str], *, if_exists: bool) -> list[str]:
    if not if_exists:
        return [no_such("topic", name, known)]
    say(f"{name}: nothing to do, there is no such topic")
    return []
