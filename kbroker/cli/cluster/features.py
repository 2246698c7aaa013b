"""`kbroker cluster features`: shows and changes the levels of features in a cluster.

Law: a level is lowered only if a person says so, and nothing is sent that the cluster would refuse,
because Kafka's sentences about wrong levels do not say which are right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from kbroker.cli.arguments.connection import (
    CONTROLLER_MOVED,
    CommandError,
    bootstrap_option,
    cluster_links,
    tell_silent,
)
from kbroker.cli.arguments.refusals import brokers_named, refuse
from kbroker.cli.shown.output import named, output_option, print_rows, say
from kbroker.client.cluster_features import ClusterFeatures, features_of, update_features
from kbroker.client.cluster_links import ClusterLinks
from kbroker.errors import ErrorCode, KafkaError

_COLUMNS = ("feature", "supported_min", "supported_max", "finalized_level", "epoch")
_HOW_ALL_ARE_SHOWN = "`kbroker cluster features`"
_NAME_AND_LEVEL = re.compile(r"([^=]+)=([0-9]{1,5})")


@click.command(short_help="Show and change the levels of features.")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="NAME=LEVEL",
    help="Settle on this level, such as transaction.version=2; may be repeated.",
)
@click.option("--downgrade", is_flag=True, help="Let --set lower levels, too; 0 ends a feature.")
@click.option("--dry-run", is_flag=True, help="Only ask whether --set would be done.")
@output_option
@bootstrap_option
def features(
    bootstrap: str, output: str, sets: Sequence[str], downgrade: bool, dry_run: bool
) -> None:
    """Print one line per feature: the levels that all brokers support, and the one that the cluster
    has settled on, 0 if it has on none. With a higher EPOCH levels are newer.

    With --set the cluster settles on another level, as with kafka-features.sh. Clients that know
    what comes with it begin to use it when they connect the next time. Every broker has to support
    it, and those that do not cannot join from then on.
    """
    wanted = _levels(sets)
    if not wanted and (downgrade or dry_run):
        raise click.UsageError(f"{'--downgrade' if downgrade else '--dry-run'} needs --set")
    with cluster_links(bootstrap) as links:
        found = features_of(links)
        tell_silent(links)
        if wanted:
            _settle(links, found, wanted, downgrade=downgrade, dry_run=dry_run)
            return
    print_rows([_row(found, name) for name in found.names()], _COLUMNS, output)
    if not found.names():
        say("no features: these brokers support none, as those of Apache Kafka with ZooKeeper")
    for name in found.names():
        _say_who_lacks(found, name)


def _levels(sets: Sequence[str]) -> dict[str, int]:
    levels = {}
    for text in sets:
        parts = _NAME_AND_LEVEL.fullmatch(text)
        if parts is None:
            raise click.UsageError(f"--set '{text}' is not NAME=LEVEL, with a level such as 0 or 2")
        levels[parts[1]] = int(parts[2])
    return levels


def _row(found: ClusterFeatures, name: str) -> dict[str, Any]:
    _, lowest, highest = found.range_of(name)
    return {
        "feature": name,
        "supported_min": lowest,
        "supported_max": highest,
        "finalized_level": found.levels.get(name, 0),
        "epoch": found.epoch,
    }


def _say_who_lacks(found: ClusterFeatures, name: str) -> None:
    """Say which brokers keep the others from the highest level of all."""
    ranges = [each[name] for each in found.supported.values() if name in each]
    highest = max((each.highest for each in ranges), default=0)
    lacking = found.lacking(name, highest) if highest else []
    if lacking:
        say(f"{name} {highest} is not supported by {brokers_named(lacking)}")


def _settle(
    links: ClusterLinks,
    found: ClusterFeatures,
    wanted: Mapping[str, int],
    *,
    downgrade: bool,
    dry_run: bool,
) -> None:
    """Change the levels that differ; none of them if a mistake can be seen before."""
    mistakes = [_mistake(found, name, level, downgrade) for name, level in wanted.items()]
    refuse([mistake for mistake in mistakes if mistake is not None])
    if dry_run and not found.can_validate:
        raise CommandError(
            "nothing was asked: a broker of this cluster would change the levels in spite of "
            "--dry-run, as Apache Kafka does with ZooKeeper"
        )
    levels = {name: (found.levels.get(name, 0), level) for name, level in wanted.items()}
    changes = {name: pair for name, pair in levels.items() if pair[0] != pair[1]}
    for name, (_, level) in levels.items():
        if name not in changes:
            say(f"{name} is {level} already")
    if not changes:
        return
    try:
        refusals = update_features(links, changes, only_validates=dry_run)
    except KafkaError as error:
        raise CommandError(f"{named(changes)} not changed: {_reason(error)}") from error
    for name, (before, after) in changes.items():
        if refusals[name] is None:
            verb = "raised" if after > before else "lowered"
            change = f"would be {verb}" if dry_run else verb
            say(f"{name}: {change} from {before} to {after}")
    refuse(
        [
            f"{name} not changed: {_reason(refusal)}"
            for name, refusal in refusals.items()
            if refusal is not None
        ]
    )


def _mistake(found: ClusterFeatures, name: str, level: int, downgrade: bool) -> str | None:
    """Say why the cluster would refuse a level, and what to do; None if it may take it."""
    if name not in found.names():
        return f"no such feature: {name} (brokers have {named(found.names()) or 'none'})"
    before = found.levels.get(name, 0)
    if level < before and not downgrade:
        return f"{name} is {before}, and {level} is lower: add --downgrade to go back"
    lacking = found.lacking(name, level)
    if level == 0 or not lacking:
        return None
    _, lowest, highest = found.range_of(name)
    levels = f"{lowest} to {highest}" if highest > lowest else str(highest)
    return f"{name} {level} is not supported by {brokers_named(lacking)}: all support {levels}"


def _reason(error: KafkaError) -> str:
    if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return f"you may not alter the cluster ({error.code.name})"
    if error.code == ErrorCode.NOT_CONTROLLER:
        return f"{CONTROLLER_MOVED} ({error.code.name})"
    if error.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.FEATURE_UPDATE_FAILED):
        return f"{error.message or 'no answer in time'}: see {_HOW_ALL_ARE_SHOWN}, and try again"
    return str(error)
