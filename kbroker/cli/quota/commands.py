"""`kbroker quota`: how much users, client ids and addresses may use of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

from kbroker.cli.arguments.completion import quota_client_ids, quota_users
from kbroker.cli.arguments.connection import bootstrap_option, cluster_links
from kbroker.cli.arguments.refusals import refuse
from kbroker.cli.lazy_commands import CommandGroup
from kbroker.cli.shown.output import Row, filled, options, output_option, print_rows, say
from kbroker.client.client_quotas import altered_quotas, described_quotas
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.quota_words import (
    DEFAULT_NAME,
    KEYS,
    TYPES,
    Names,
    QuotaWordError,
    entity_of,
    entity_words,
    keys_in,
    values_in,
)
from kbroker.wording import named

_COLUMNS = ("user", "client-id", "ip", "quota", "value")
_CHANGES = (*_COLUMNS, "change")


@click.group(cls=CommandGroup)
def quota() -> None:
    """List, set and unset quotas: how much users, client ids and addresses may use."""


def _complete_keys(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    names = [*KEYS, *KEYS.values()]
    return [name for name in names if name.startswith(incomplete)]


def _complete_values(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    return [f"{name}=" for name in KEYS if name.startswith(incomplete)]


_entity_options = options(
    click.option("--user", metavar="NAME", shell_complete=quota_users, help="Quotas of this user."),
    click.option(
        "--client-id",
        metavar="NAME",
        shell_complete=quota_client_ids,
        help="Quotas of this client id; with --user, of that user with it.",
    ),
    click.option("--ip", metavar="ADDRESS", help="Quotas of this address."),
    click.option(
        "--default",
        "defaults",
        type=click.Choice(TYPES),
        multiple=True,
        help="Quotas of all users, client ids or addresses that have none of their own; may be "
        "repeated.",
    ),
)
_dry_run_option = click.option("--dry-run", is_flag=True, help="Only ask whether it can be done.")


@quota.command("list", short_help="Print quotas.")
@_entity_options
@output_option
@bootstrap_option
def list_quotas(
    bootstrap: str,
    output: str,
    user: str | None,
    client_id: str | None,
    ip: str | None,
    defaults: Sequence[str],
) -> None:
    """Print a line for each quota: all of them, or those with this user, client id or address.

    Kafka looks for the quota of a client in this order: user and client id, user and default
    client id, user, default user and client id, both defaults, default user, client id, default
    client id. <default> stands for those that have none of their own.
    """
    entity: Mapping[str, str | None] = {}
    if user is not None or client_id is not None or ip is not None or defaults:
        entity = _entity(user, client_id, ip, defaults)
    with cluster_links(bootstrap) as links:
        found = described_quotas(links, entity)
    rows = [
        _row(each.entity, key, each.values[key]) for each in found for key in sorted(each.values)
    ]
    print_rows(rows, _shown(rows, _COLUMNS, output), output)
    if not rows:
        whose = f" with {entity_words(entity)}" if entity else ""
        say(f"no quotas{whose} (set one with `kbroker quota set`)")


@quota.command("set", short_help="Set quotas of a user, a client id or an address.")
@click.argument(
    "words", nargs=-1, required=True, metavar="KEY=VALUE...", shell_complete=_complete_values
)
@_entity_options
@_dry_run_option
@output_option
@bootstrap_option
def set_quotas(
    bootstrap: str,
    output: str,
    dry_run: bool,
    words: Sequence[str],
    user: str | None,
    client_id: str | None,
    ip: str | None,
    defaults: Sequence[str],
) -> None:
    """Set quotas: so much each broker allows by itself.

    For users and client ids KEY is producer (bytes in a second, as in producer=1MB/s), consumer
    (likewise), request (percentage of the time of the broker's loop, as in request=50%) or
    mutations (partitions created or deleted in a second); for addresses connections (new ones in
    a second, as in connections=10/s). Kafka's names are taken as well, such as
    producer_byte_rate=1048576. A kB has 1,024 bytes.

    The quota of a user is one for all its clients together, and so is that of a client id; by
    --default each user, client id or address has as much for itself.
    """
    entity = _entity(user, client_id, ip, defaults)
    with _word_errors():
        values = values_in(words, entity)
    with cluster_links(bootstrap) as links:
        _change(links, entity, values, is_dry=dry_run)
    _print_changes(entity, values, "set", output, is_dry=dry_run)


@quota.command("unset", short_help="Remove quotas of a user, a client id or an address.")
@click.argument("words", nargs=-1, metavar="[KEY...]", shell_complete=_complete_keys)
@_entity_options
@_dry_run_option
@output_option
@bootstrap_option
def unset_quotas(
    bootstrap: str,
    output: str,
    dry_run: bool,
    words: Sequence[str],
    user: str | None,
    client_id: str | None,
    ip: str | None,
    defaults: Sequence[str],
) -> None:
    """Remove quotas: all that the user, client id or address has, or those of these keys.

    What was for exactly this user, client id or address goes; others may hold from then on, such
    as those of --default.
    """
    entity = _entity(user, client_id, ip, defaults)
    with _word_errors():
        keys = keys_in(words, entity)
    with cluster_links(bootstrap) as links:
        found = described_quotas(links, entity, is_whole=True)
        there = dict(sorted(found[0].values.items())) if found else {}
        if not there:
            refuse([f"{entity_words(entity)} has no quotas (see `kbroker quota list`)"])
        missing = [key for key in keys if key not in there]
        refuse([f"{entity_words(entity)} has no {key}: there is {named(there)}" for key in missing])
        gone = {key: there[key] for key in keys or there}
        _change(links, entity, dict.fromkeys(gone), is_dry=dry_run)
    _print_changes(entity, gone, "unset", output, is_dry=dry_run)


def _change(
    links: ClusterLinks, entity: Names, values: Mapping[str, float | None], *, is_dry: bool
) -> None:
    (refusal,) = altered_quotas(links, [(entity, values)], only_checks=is_dry)
    if refusal is not None:
        refuse([f"{entity_words(entity)}: {refusal.reason}"])


def _print_changes(
    entity: Names, values: Mapping[str, float], change: str, output: str, *, is_dry: bool
) -> None:
    done = f"would be {change}" if is_dry else change
    rows = [_row(entity, key, value) | {"change": done} for key, value in values.items()]
    print_rows(rows, _shown(rows, _CHANGES, output), output)
    if is_dry:
        say("nothing was changed: leave out --dry-run to do it")


def _entity(
    user: str | None, client_id: str | None, ip: str | None, defaults: Sequence[str]
) -> dict[str, str | None]:
    given = zip(TYPES, (user, client_id, ip), strict=True)
    with _word_errors():
        return entity_of([(k, name) for k, name in given if name is not None], defaults)


def _shown(rows: Sequence[Row], columns: Sequence[str], output: str) -> Sequence[str]:
    return filled(rows, columns) if output == "table" else columns


@contextmanager
def _word_errors() -> Iterator[None]:
    try:
        yield
    except QuotaWordError as error:
        raise click.UsageError(str(error)) from error


def _row(entity: Names, key: str, value: float) -> dict[str, str | float | None]:
    names = {kind: DEFAULT_NAME if entity[kind] is None else entity[kind] for kind in entity}
    return {**names, "quota": key, "value": int(value) if float(value).is_integer() else value}
