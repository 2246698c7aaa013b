"""`kbroker config`: settings of a running cluster, and those that a start would use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TextIO

import click

from kbroker.cli.arguments.completion import group_names, setting_names, topic_names
from kbroker.cli.arguments.connection import bootstrap_option, cluster_links
from kbroker.cli.arguments.key_values import key_values
from kbroker.cli.arguments.refusals import no_such_broker, refuse
from kbroker.cli.config.files import check, show
from kbroker.cli.lazy_commands import CommandGroup
from kbroker.cli.shown.output import options, output_option, print_rows, say
from kbroker.client.cluster_configs import DEFAULT_ORIGIN, Resource, Setting, describe_configs
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.setting_changes import SettingChanges, changed
from kbroker.client.unknown_names import no_such
from kbroker.config.config_resources import ResourceType
from kbroker.config.properties_file import parse_properties
from kbroker.errors import Trouble
from kbroker.near_names import did_you_mean

_COLUMNS = ("of", "setting", "value", "origin")
_TARGETS = "--topic, --group, --broker, --all-brokers or --loggers"


@click.group(cls=CommandGroup)
def config() -> None:
    """Show and change settings of a running cluster; check and show those of a start."""


config.add_command(check)
config.add_command(show)


# Options that say whose settings are meant.
_of_options = options(
    click.option(
        "--topic",
        "topics",
        multiple=True,
        metavar="NAME",
        shell_complete=topic_names,
        help="Settings of this topic; may be repeated.",
    ),
    click.option(
        "--group",
        "groups",
        multiple=True,
        metavar="NAME",
        shell_complete=group_names,
        help="Settings of this consumer group, which need not be there yet; may be repeated.",
    ),
    click.option(
        "--broker",
        "brokers",
        type=int,
        multiple=True,
        metavar="ID",
        help="Settings of this broker; may be repeated.",
    ),
    click.option("--all-brokers", is_flag=True, help="Dynamic settings that hold for all brokers."),
    click.option(
        "--loggers",
        type=int,
        multiple=True,
        metavar="ID",
        help="Levels of the loggers of this broker; may be repeated.",
    ),
)


@config.command("describe", short_help="Print settings with their origins.")
@click.argument("names", nargs=-1, metavar="[SETTING...]", shell_complete=setting_names)
@_of_options
@click.option("--all", "shows_all", is_flag=True, help="Show settings that have defaults, too.")
@output_option
@bootstrap_option
def describe(
    bootstrap: str,
    output: str,
    names: Sequence[str],
    topics: Sequence[str],
    groups: Sequence[str],
    brokers: Sequence[int],
    all_brokers: bool,
    loggers: Sequence[int],
    shows_all: bool,
) -> None:
    """Print settings with their origins: those that differ from the defaults, or the ones named.

    The origin is the topic, the group, the broker (dynamic: changed while it runs; static: since
    its start), the cluster, or the default. A secret has no value.
    """
    resources = _resources(topics, groups, brokers, loggers, all_brokers=all_brokers)
    with cluster_links(bootstrap) as links:
        _check_there(links, resources)
        settings = describe_configs(links, resources, names)
        found = {each.name for entries in settings.values() for each in entries}
        missing = [name for name in names if name not in found]
        known = _all_names(links, resources) if missing else []
    rows = [
        {"of": str(resource), "setting": each.name, "value": each.value, "origin": each.origin}
        for resource, entries in settings.items()
        for each in entries
        if names or shows_all or each.origin != DEFAULT_ORIGIN
    ]
    print_rows(rows, _COLUMNS, output)
    if not rows and not missing:
        say("every setting has its default (see them with --all)")
    refuse([f"unknown setting {name}{did_you_mean(name, known)}" for name in missing])


@config.command("alter")
@_of_options
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set; may be repeated.")
@click.option(
    "--set-from",
    "file",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="Set what is in this properties file, '-' for standard input: for passwords, as others "
    "can see arguments (`ps`).",
)
@click.option(
    "--delete",
    "deletes",
    multiple=True,
    metavar="KEY",
    shell_complete=setting_names,
    help="Go back to the default; may be repeated.",
)
@click.option(
    "--append", "appends", multiple=True, metavar="KEY=VALUE", help="Add to a list of values."
)
@click.option(
    "--subtract", "subtracts", multiple=True, metavar="KEY=VALUE", help="Take from such a list."
)
@click.option("--dry-run", is_flag=True, help="Only ask whether it can be done.")
@bootstrap_option
def alter(
    bootstrap: str,
    topics: Sequence[str],
    groups: Sequence[str],
    brokers: Sequence[int],
    all_brokers: bool,
    loggers: Sequence[int],
    sets: Sequence[str],
    file: TextIO | None,
    deletes: Sequence[str],
    appends: Sequence[str],
    subtracts: Sequence[str],
    dry_run: bool,
) -> None:
    """Change settings while the cluster runs."""
    resources = _resources(topics, groups, brokers, loggers, all_brokers=all_brokers)
    from_file = parse_properties(_text_of(file)) if file is not None else {}
    if not (sets or from_file or deletes or appends or subtracts):
        raise click.UsageError("nothing to alter: give --set, --delete, --append or --subtract")
    given = (("--set", sets), ("--append", appends), ("--subtract", subtracts))
    wanted = [key_values(option, texts) for option, texts in given]
    wanted[0] = from_file | wanted[0]
    with cluster_links(bootstrap) as links:
        _check_there(links, resources)
        changes = SettingChanges(wanted[0], deletes, *wanted[1:])
        failures = changed(links, resources, changes, say, only_checks=dry_run)
    if dry_run:
        say("nothing was changed: leave out --dry-run to do it")
    refuse(failures)


def _resources(
    topics: Iterable[str],
    groups: Iterable[str],
    brokers: Iterable[int],
    loggers: Iterable[int],
    *,
    all_brokers: bool,
) -> list[Resource]:
    resources = [Resource(ResourceType.TOPIC, name) for name in dict.fromkeys(topics)]
    resources += [Resource(ResourceType.GROUP, name) for name in dict.fromkeys(groups)]
    resources += [Resource(ResourceType.BROKER, str(number)) for number in dict.fromkeys(brokers)]
    if all_brokers:
        resources.append(Resource(ResourceType.BROKER, ""))
    resources += [
        Resource(ResourceType.BROKER_LOGGER, str(number)) for number in dict.fromkeys(loggers)
    ]
    if not resources:
        raise click.UsageError(f"say whose settings: give {_TARGETS}")
    return resources


def _check_there(links: ClusterLinks, resources: Iterable[Resource]) -> None:
    described = links.describe(None)
    topics = [str(topic.name) for topic in described.topics]
    brokers = {broker.node_id for broker in described.brokers}
    failures = []
    has_unknown_topic = False
    for resource in resources:
        if resource.type is ResourceType.TOPIC:
            if resource.name not in topics:
                has_unknown_topic = True
                failures.append(no_such("topic", resource.name, topics))
        elif resource.type is ResourceType.GROUP:
            continue
        elif resource.name and int(resource.name) not in brokers:
            failures.append(no_such_broker(int(resource.name), brokers))
    refuse(failures, Trouble.UNKNOWN_TOPIC if has_unknown_topic else None)


def _all_names(links: ClusterLinks, resources: Sequence[Resource]) -> list[str]:
    settings: Iterable[Sequence[Setting]] = describe_configs(links, resources).values()
    return sorted({each.name for entries in settings for each in entries})


def _text_of(file: TextIO) -> str:
    try:
        return file.read()
    except UnicodeDecodeError:
        raise click.UsageError(f"--set-from: {file.name} is not UTF-8") from None  # has its bytes
