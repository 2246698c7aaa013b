"""`kbroker user`: who may log in by SCRAM, and by which password."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote

import click

from kbroker.cli.arguments.completion import user_names
from kbroker.cli.arguments.refusals import refuse
from kbroker.cli.lazy_commands import CommandGroup
from kbroker.cli.shown.output import counted, named, options, output_option, print_rows, say
from kbroker.cli.user.password_input import password_option, read_password
from kbroker.cli.user.user_store import UserStore, store_options, user_store
from kbroker.client.scram_users import Users, with_password, without
from kbroker.client.unknown_names import no_such
from kbroker.errors import KafkaError
from kbroker.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kbroker.sasl.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN, OWN_ITERATIONS, SCRAM_MECHANISMS

_COLUMNS = ("user", "mechanism", "iterations")
_CHANGES = ("user", "mechanism", "change")
_ALL = tuple(SCRAM_MECHANISMS)


@click.group(cls=CommandGroup)
def user() -> None:
    """List, add and delete users who log in by SCRAM, and change their passwords."""


_name = click.argument("name", metavar="USER", shell_complete=user_names)
_mechanism_option = click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(_ALL, case_sensitive=False),
    multiple=True,
    help="Only for this mechanism; may be repeated.",
)
_credential_options = options(
    _mechanism_option,
    click.option(
        "--iterations",
        type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
        default=OWN_ITERATIONS,
        show_default=True,
        help="How much work it is to try a password.",
    ),
    password_option,
)


@user.command("list")
@click.argument("names", nargs=-1, metavar="[USER...]", shell_complete=user_names)
@output_option
@store_options
def list_users(bootstrap: str, directory: str | None, output: str, names: Sequence[str]) -> None:
    """Print a line for each user and mechanism."""
    with user_store(bootstrap, directory) as store:
        users = store.described()
    rows = [
        {"user": name, "mechanism": mechanism, "iterations": iterations}
        for name, mechanisms in sorted(users.items())
        for mechanism, iterations in mechanisms.items()
        if not names or name in names
    ]
    print_rows(rows, _COLUMNS, output)
    if not rows and not names:
        say("no users (add one with `kbroker user add NAME`)")
    refuse([no_such("user", name, users) for name in dict.fromkeys(names) if name not in users])


@user.command("add", short_help="Add a user, with a password that is asked for.")
@_name
@_credential_options
@output_option
@store_options
def add(
    bootstrap: str,
    directory: str | None,
    output: str,
    name: str,
    mechanisms: Sequence[str],
    iterations: int,
    password_file: str | None,
) -> None:
    """Add a user who can log in by the mechanisms of SCRAM that the broker offers
    (sasl.enabled.mechanisms); with --data, or where it offers none, by SCRAM-SHA-256 and
    SCRAM-SHA-512.

    The password is asked for; it never leaves this command, nor is it stored: a broker keeps what
    it takes to check one. Brokers take the user at once.
    """
    with user_store(bootstrap, directory) as store:
        there, offered = store.described().get(name, {}), store.offered()
        wanted = tuple(dict.fromkeys(mechanisms)) or offered or _ALL
        if there.keys() & set(wanted):
            refuse(
                [
                    f"{name} is there already, with {named(there)}: change the password with "
                    f"`kbroker user password {name}`"
                ]
            )
        _give(store, name, wanted, iterations, password_file)
        is_without_rules = store.rules_for(name) == 0
    _print_changes({name: wanted}, "added", output)
    if is_without_rules:
        say(
            f"no rule is for {name} yet: `kbroker acl allow {quote(name)} read --topic NAME` lets "
            f"{name} read, `kbroker acl allow --help` says what else there is"
        )
    useless = [each for each in wanted if each not in offered]
    if useless:
        say(f"no listener offers a login by {named(useless)} now (sasl.enabled.mechanisms)")


@user.command("password", short_help="Give a user another password.")
@_name
@_credential_options
@output_option
@store_options
def password(
    bootstrap: str,
    directory: str | None,
    output: str,
    name: str,
    mechanisms: Sequence[str],
    iterations: int,
    password_file: str | None,
) -> None:
    """Give a user another password, for the mechanisms that the user has.

    Whoever is logged in stays so, until the connection ends or the login has to be renewed
    (connections.max.reauth.ms).
    """
    with user_store(bootstrap, directory) as store:
        there = _there(store.described(), name)
        wanted = tuple(dict.fromkeys(mechanisms)) or tuple(there)
        if not there.keys() >= set(wanted):
            refuse([f"{name} has no {named(wanted)}: {name} has {named(there)}"])
        _give(store, name, wanted, iterations, password_file)
    _print_changes({name: wanted}, "changed", output)


@user.command("delete", short_help="Delete users.")
@click.argument("names", nargs=-1, required=True, metavar="USER...", shell_complete=user_names)
@_mechanism_option
@output_option
@store_options
def delete(
    bootstrap: str,
    directory: str | None,
    output: str,
    names: Sequence[str],
    mechanisms: Sequence[str],
) -> None:
    """Delete users, or their credentials of one mechanism. Quotas of a user stay."""
    failures = []
    with user_store(bootstrap, directory) as store:
        users = store.described()
        there = {
            name: {m: n for m, n in users[name].items() if not mechanisms or m in mechanisms}
            for name in names
            if name in users
        }
        failures += [no_such("user", name, users) for name in names if name not in users]
        failures += [f"{name} has no {named(mechanisms)}" for name in there if not there[name]]
        outcomes = store.alter(without(there))
        left = {name: store.rules_for(name) for name in there}
    failures += _failures(outcomes)
    gone = {name: tuple(there[name]) for name, refusal in outcomes.items() if refusal is None}
    _print_changes(gone, "deleted", output)
    for name in gone:
        if left[name]:
            rules = counted(left[name] or 0, "rule")
            say(f"not deleted: {rules} for {name} (see `kbroker acl list {quote(name)}`)")
    refuse(failures)


def _there(users: Users, name: str) -> Mapping[str, int]:
    if name not in users:
        refuse([no_such("user", name, users)])
    return users[name]


def _give(
    store: UserStore, name: str, mechanisms: Sequence[str], iterations: int, file: str | None
) -> None:
    request: AlterUserScramCredentialsRequest = with_password(
        name, read_password(file, name), mechanisms, iterations
    )
    refuse(_failures(store.alter(request)))


def _failures(outcomes: Mapping[str, KafkaError | None]) -> list[str]:
    return [f"{user}: {error.reason}" for user, error in outcomes.items() if error is not None]


def _print_changes(changed: Mapping[str, Sequence[str]], change: str, output: str) -> None:
    rows = [
        {"user": user, "mechanism": mechanism, "change": change}
        for user, mechanisms in changed.items()
        for mechanism in mechanisms
    ]
    print_rows(rows, _CHANGES, output)
