"""`kbroker token`: delegation tokens, with which workers log in that should hold no password."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from kbroker.cli.arguments.completion import token_ids
from kbroker.cli.arguments.connection import CommandError, bootstrap_option, cluster_links
from kbroker.cli.arguments.refusals import refuse
from kbroker.cli.arguments.time_argument import duration
from kbroker.cli.lazy_commands import CommandGroup
from kbroker.cli.shown.output import output_option, print_rows, say
from kbroker.client.unknown_names import no_such
from kbroker.delegation_tokens.delegation_token import USER_TYPE
from kbroker.delegation_tokens.delegation_token import password as password_of
from kbroker.errors import KafkaError

if TYPE_CHECKING:
    from kbroker.client.cluster_links import ClusterLinks

_COLUMNS = ("token", "owner", "requester", "renewers", "issued", "expires", "ends")
_CREATED = ("token", "owner", "renewers", "expires", "ends")
_CHANGES = ("token", "expires")
_HMAC = "hmac"


@click.group(cls=CommandGroup)
def token() -> None:
    """Make, list, renew and expire delegation tokens."""


def _principal(text: str) -> str:
    """Return a principal; a name alone is that of a user."""
    name = str(text)
    return name if ":" in name else f"{USER_TYPE}:{name}"


_tokens = click.argument(
    "tokens", nargs=-1, required=True, metavar="TOKEN...", shell_complete=token_ids
)


@token.command("create", short_help="Make a token.")
@click.option("--owner", type=_principal, metavar="USER", help="Who logs in by it; you.")
@click.option(
    "--renewer",
    "renewers",
    type=_principal,
    multiple=True,
    metavar="USER",
    help="Who may renew and end it, too; may be repeated.",
)
@click.option(
    "--lifetime",
    type=duration,
    metavar="DURATION",
    help="It ends then, however often it is renewed, such as 12h; at most "
    "delegation.token.max.lifetime.ms of the brokers, which is the default.",
)
@click.option(
    "--write",
    "file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the properties of a client that logs in by it to a new file, in place of printing "
    "its HMAC.",
)
@output_option
@bootstrap_option
def create(
    bootstrap: str,
    output: str,
    owner: str | None,
    renewers: Sequence[str],
    lifetime: float | None,
    file: str | None,
) -> None:
    """Make a token, by which others log in as its owner, and print its HMAC: the password of a
    login by SCRAM, whose user name is the token's id.

    You have to be logged in by a password or a certificate: no token begets a token. It has to be
    renewed within delegation.token.expiry.time.ms of the brokers, a day.
    """
    from kbroker.client.delegation_tokens import BROKERS_OWN, created_token

    longest_ms = BROKERS_OWN if lifetime is None else _ms(lifetime)
    descriptor = _opened(file)
    try:
        with cluster_links(bootstrap) as links, _refusal("no token is made"):
            answer = created_token(links, owner, renewers, longest_ms)
    except BaseException:
        _drop(file, descriptor)
        raise
    row = {
        "token": answer.token_id,
        "owner": f"{answer.principal_type}:{answer.principal_name}",
        "renewers": list(renewers),
        "expires": _time(answer.expiry_timestamp_ms),
        "ends": _time(answer.max_timestamp_ms),
        _HMAC: password_of(answer.hmac),
    }
    if file is None or descriptor is None:
        print_rows([row], (*_CREATED, _HMAC), output)
        return
    from kbroker.cli.token.token_file import write_token

    write_token(descriptor, answer.token_id, str(row[_HMAC]), str(bootstrap))
    print_rows([row], _CREATED, output)
    say(f"clients log in by it with {file}")


@token.command("list")
@click.argument("tokens", nargs=-1, metavar="[TOKEN...]", shell_complete=token_ids)
@click.option(
    "--owner",
    "owners",
    type=_principal,
    multiple=True,
    metavar="USER",
    help="Those that this user owns, has made or may renew; may be repeated.",
)
@click.option("--hmac", "shows_hmac", is_flag=True, help="With their HMACs: others log in by them.")
@output_option
@bootstrap_option
def list_tokens(
    bootstrap: str, output: str, tokens: Sequence[str], owners: Sequence[str], shows_hmac: bool
) -> None:
    """Print a line for each token that you may see: your own, those that you may renew, and those
    that rules show you.
    """
    found = _described(bootstrap, owners)
    rows = [_row(each) for each in found.values() if not tokens or each.token_id in tokens]
    print_rows(rows, (*_COLUMNS, _HMAC) if shows_hmac else _COLUMNS, output)
    if not rows and not tokens:
        say("no tokens (make one with `kbroker token create`)")
    refuse([no_such("token", each, found) for each in dict.fromkeys(tokens) if each not in found])


@token.command("renew", short_help="Put off the end of tokens.")
@_tokens
@click.option(
    "--for",
    "period",
    type=duration,
    metavar="DURATION",
    help="From now on, such as 12h; without it delegation.token.expiry.time.ms of the brokers.",
)
@output_option
@bootstrap_option
def renew(bootstrap: str, output: str, tokens: Sequence[str], period: float | None) -> None:
    """Put off the end of tokens that you own or may renew. No token lasts beyond the time that it
    was made for.
    """
    from kbroker.client.delegation_tokens import renewed_token

    _change(bootstrap, output, tokens, period, renewed_token)


@token.command("expire", short_help="End tokens.")
@_tokens
@click.option(
    "--in", "period", type=duration, metavar="DURATION", help="Then, such as 5m; at once."
)
@output_option
@bootstrap_option
def expire(bootstrap: str, output: str, tokens: Sequence[str], period: float | None) -> None:
    """End tokens that you own or may renew: nobody logs in by them any more. Whoever is logged in
    stays so until the token would have expired, as its end was when they logged in.
    """
    from kbroker.client.delegation_tokens import expired_token

    _change(bootstrap, output, tokens, period, expired_token)


def _change(
    bootstrap: str,
    output: str,
    tokens: Sequence[str],
    period: float | None,
    change: Callable[[ClusterLinks, bytes, int], int],
) -> None:
    """Set the end of each token by itself. Its id is enough: whoever may renew it may see it."""
    from kbroker.client.delegation_tokens import BROKERS_OWN

    found = _described(bootstrap, ())
    failures, rows = [], []
    with cluster_links(bootstrap) as links:
        for each in dict.fromkeys(tokens):
            if each not in found:
                failures.append(no_such("token", each, found))
                continue
            period_ms = BROKERS_OWN if period is None else _ms(period)
            try:
                ends_ms = change(links, found[each].hmac, period_ms)
            except KafkaError as error:
                failures.append(f"{each}: {error.reason}")
            else:
                rows.append({"token": each, "expires": _time(ends_ms)})
    print_rows(rows, _CHANGES, output)
    refuse(failures)


def _described(bootstrap: str, owners: Sequence[str]) -> dict[str, Any]:
    from kbroker.client.delegation_tokens import described_tokens

    with cluster_links(bootstrap) as links, _refusal("no tokens are shown"):
        return {each.token_id: each for each in described_tokens(links, owners)}


@contextmanager
def _refusal(consequence: str) -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise CommandError(f"{consequence}: {error.reason}") from error


def _row(shown: Any) -> Mapping[str, Any]:
    return {
        "token": shown.token_id,
        "owner": f"{shown.principal_type}:{shown.principal_name}",
        "requester": _name(
            shown.token_requester_principal_type, shown.token_requester_principal_name
        ),
        "renewers": _names(shown.renewers),
        "issued": _time(shown.issue_timestamp),
        "expires": _time(shown.expiry_timestamp),
        "ends": _time(shown.max_timestamp),
        _HMAC: password_of(shown.hmac),
    }


def _names(principals: Iterable[Any]) -> list[str]:
    return [f"{each.principal_type}:{each.principal_name}" for each in principals]


def _name(kind: str, name: str) -> str | None:
    """Return a principal; None if the broker is too old to say it."""
    return f"{kind}:{name}" if kind else None


def _opened(file: str | None) -> int | None:
    if file is None:
        return None
    from kbroker.cli.token.token_file import open_new

    return open_new(file)


def _drop(file: str | None, descriptor: int | None) -> None:
    """Take away the file of a token that there is none of."""
    if file is not None and descriptor is not None:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(file)


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1_000))


def _time(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1_000, UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
