"""The words of rules on a command line: principal, operations, and the options that name resources.
Tests that give rules to a broker write them likewise, and are read here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from kbroker.acl.acl import CLUSTER_NAME, WILDCARD, AclOperation, AclResourceType, Permission
from kbroker.acl.rule_words import (
    AclRule,
    RuleWordError,
    host_of,
    operations_of,
    principal_of,
    word_of,
)
from kbroker.acl.wanted_rules import Roles, WantedRules
from kbroker.cli.arguments.completion import group_names, principals, topic_names, transactional_ids
from kbroker.cli.arguments.connection import CommandT
from kbroker.cli.shown.output import options

_VERBS = {"allow": Permission.ALLOW, "deny": Permission.DENY}
_KINDS = {
    "topics": AclResourceType.TOPIC,
    "groups": AclResourceType.GROUP,
    "transactional_ids": AclResourceType.TRANSACTIONAL_ID,
    "tokens": AclResourceType.DELEGATION_TOKEN,
    "users": AclResourceType.USER,
}


def _operation_words(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the operations that begin like the last one of a list."""
    before, comma, last = incomplete.rpartition(",")
    words = (word_of(each) for each in AclOperation if each is not AclOperation.ANY)
    return [f"{before}{comma}{word}" for word in words if word.startswith(last)]


principal_argument = click.argument("principal", metavar="PRINCIPAL", shell_complete=principals)


def operation_argument(*, required: bool) -> Callable[[CommandT], CommandT]:
    """Return the argument for operations, which the command gets as `operation`, a text."""
    return click.argument(
        "operation",
        required=required,
        metavar="OPERATION[,...]" if required else "[OPERATION[,...]]",
        shell_complete=_operation_words,
    )


prefixed_option = click.option(
    "--prefixed", is_flag=True, help="All that begin with the names, in place of these."
)


def resource_options(text: str) -> Callable[[CommandT], CommandT]:
    """Return the options that name resources; `text` begins their help."""

    def named(option: str, attribute: str, noun: str, complete: Any = None) -> Any:
        return click.option(
            option, attribute, multiple=True, metavar="NAME", shell_complete=complete,
            help=f"{text} {noun} of this name, '*' for all; may be repeated.",
        )  # fmt: skip

    return options(
        named("--topic", "topics", "the topic", topic_names),
        named("--group", "groups", "the consumer group", group_names),
        named("--transactional-id", "transactional_ids", "the transactional id", transactional_ids),
        named("--token", "tokens", "the delegation token"),
        named("--user", "users", "the user", principals),
        click.option("--cluster", is_flag=True, help=f"{text} the cluster itself."),
    )


roles_option = options(
    click.option("--producer", is_flag=True, help="All that a producer to the topics does."),
    click.option("--consumer", is_flag=True, help="All that a consumer of topics in groups does."),
    click.option(
        "--idempotent",
        is_flag=True,
        help="With --producer: IdempotentWrite, for brokers before Kafka 3.0.",
    ),
)


def hosts_option(help_text: str) -> Callable[[CommandT], CommandT]:
    """Return the option `--host`, which the command gets as `hosts`."""
    return click.option("--host", "hosts", multiple=True, metavar="IP", help=help_text)


@contextmanager
def rule_errors() -> Iterator[None]:
    """Turn a wrong word into an error of usage."""
    try:
        yield
    except RuleWordError as error:
        raise click.UsageError(str(error)) from error


def names_of(given: Mapping[str, Any]) -> dict[AclResourceType, tuple[str, ...]]:
    """Return the names that options give, by kind. Raises RuleWordError."""
    names = {kind: tuple(given[option]) for option, kind in _KINDS.items() if given[option]}
    users = names.get(AclResourceType.USER)
    if users:
        is_whole = not given.get("prefixed", False)
        names[AclResourceType.USER] = tuple(
            principal_of(user) if is_whole and user != WILDCARD else user for user in users
        )
    if given["cluster"]:
        names[AclResourceType.CLUSTER] = (CLUSTER_NAME,)
    return names


def wanted_rules(given: Mapping[str, Any]) -> WantedRules:
    """Return what a command line asks for. Raises RuleWordError."""
    operation = given.get("operation")
    wanted = WantedRules(
        principal_of(given["principal"]),
        tuple(operations_of(operation)) if operation else (),
        names_of(given),
        given.get("prefixed", False),
        tuple(map(host_of, given["hosts"])) or (WILDCARD,),
        Roles(*(given.get(each, False) for each in Roles._fields)),
    )
    wanted.check()
    return wanted


def rules_to_make(given: Mapping[str, Any], permission: Permission) -> list[AclRule]:
    """Return the rules that a command line asks for. Raises RuleWordError."""
    wanted = wanted_rules(given)
    if any(wanted.roles) and permission is Permission.DENY:
        raise RuleWordError("--producer and --consumer are for what is allowed")
    if not wanted.operations and not any(wanted.roles):
        roles = "" if permission is Permission.DENY else ", or --producer or --consumer"
        raise RuleWordError(f"no operation is given: add one{roles}")
    return wanted.rules(permission)


making_options = options(
    principal_argument,
    operation_argument(required=False),
    resource_options("For"),
    prefixed_option,
    hosts_option("Only from this address; may be repeated (default: from any)."),
)


@click.command(add_help_option=False)
@making_options
@roles_option
def _line(**given: Any) -> Mapping[str, Any]:
    return given


def rules_in(line: str) -> list[AclRule]:
    """The rules of a line such as `allow ann read --topic orders`. Raises ValueError with a
    sentence.
    """
    verb, _, rest = line.strip().partition(" ")
    if verb not in _VERBS:
        raise _not_a_rule(line, "it begins with neither allow nor deny")
    try:
        given = _line.main(shlex.split(rest), prog_name=verb, standalone_mode=False)
        return rules_to_make(given, _VERBS[verb])
    except click.UsageError as error:
        raise _not_a_rule(line, error.format_message()) from error
    except ValueError as error:
        raise _not_a_rule(line, str(error)) from error


def _not_a_rule(line: str, why: str) -> ValueError:
    return ValueError(f"{line!r} is not a rule: {why}")
