"""`kbroker acl allow`, `deny` and `revoke`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from kbroker.acl.acl import AclOperation, Permission
from kbroker.acl.acl_filter import EVERYTHING, AclFilter
from kbroker.acl.rule_words import USER, AclRule, pattern_words, rule_words
from kbroker.acl.wanted_rules import WantedRules, unusual_names
from kbroker.cli.acl.rule_options import (
    hosts_option,
    making_options,
    operation_argument,
    prefixed_option,
    principal_argument,
    resource_options,
    roles_option,
    rule_errors,
    rules_to_make,
    wanted_rules,
)
from kbroker.cli.acl.rule_rows import RULE_COLUMNS, near_principal, rule_row
from kbroker.cli.arguments.connection import CommandT, bootstrap_option, cluster_links
from kbroker.cli.arguments.refusals import refuse
from kbroker.cli.shown.output import options, output_option, print_rows, say
from kbroker.client.access_rules import create_rules, delete_rules, described_rules
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.errors import KafkaError
from kbroker.near_names import did_you_mean

_COLUMNS = (*RULE_COLUMNS, "change")
_change_options: Callable[[CommandT], CommandT] = options(
    click.option("--dry-run", is_flag=True, help="Only show what would change."),
    output_option,
    bootstrap_option,
)


@click.command(short_help="Allow a principal to do something.")
@making_options
@roles_option
@_change_options
def allow(bootstrap: str, output: str, dry_run: bool, **given: Any) -> None:
    """Allow a principal operations on topics, groups and other resources.

    PRINCIPAL is a user, as in ann or User:ann; '*' is everybody. Operations are read, write,
    create, delete, alter, describe, describe-configs, alter-configs, cluster-action,
    idempotent-write, create-tokens, describe-tokens, and all. Read, write, delete and alter include
    describe, alter-configs includes describe-configs.

    --producer and --consumer stand for the operations that these need. What is denied stays so.
    """
    _make(bootstrap, output, Permission.ALLOW, given, is_dry=dry_run)


@click.command(short_help="Deny a principal something, whatever is allowed.")
@making_options
@_change_options
def deny(bootstrap: str, output: str, dry_run: bool, **given: Any) -> None:
    """Deny a principal operations, whatever other rules allow. Super users are not concerned.

    To take back what was allowed, use `kbroker acl revoke`.
    """
    _make(bootstrap, output, Permission.DENY, given, is_dry=dry_run)


@click.command(short_help="Take back what was allowed, or denied.")
@principal_argument
@operation_argument(required=False)
@resource_options("About")
@prefixed_option
@hosts_option("Only rules for this address; may be repeated.")
@roles_option
@click.option("--denied", is_flag=True, help="Take back what was denied, in place of allowed.")
@_change_options
def revoke(bootstrap: str, output: str, dry_run: bool, denied: bool, **given: Any) -> None:
    """Take back rules that allow a principal something.

    The rules are those for exactly these names, or with --prefixed for exactly these beginnings.
    Without OPERATION all operations are meant, without --host all addresses.
    """
    with rule_errors():
        wanted = wanted_rules(given)
    permission = Permission.DENY if denied else Permission.ALLOW
    hosts = wanted.hosts if given["hosts"] else (None,)
    with cluster_links(bootstrap) as links:
        found = described_rules(links, _meant(wanted, permission, hosts))
        if not found:
            refuse([_none_found(links, wanted, permission)])
        failures = []
        if not dry_run:
            deleted = delete_rules(links, found)
            failures = [
                f"{rule_words(each.rule)}: not revoked: {each.refusal.reason}"
                for each in deleted
                if each.refusal is not None
            ]
            found = [each.rule for each in deleted if each.refusal is None]
    change = "would be revoked" if dry_run else "revoked"
    print_rows([rule_row(rule, change=change) for rule in found], _COLUMNS, output)
    refuse(failures)


def _make(
    bootstrap: str, output: str, permission: Permission, given: dict[str, Any], *, is_dry: bool
) -> None:
    with rule_errors():
        rules = rules_to_make(given, permission)
        wanted = wanted_rules(given)
    for sentence in unusual_names(wanted):
        say(sentence)
    with cluster_links(bootstrap) as links:
        filters = {_all_of(rule) for rule in rules}
        there = set(described_rules(links, sorted(filters, key=str)))
        refusals: Sequence[KafkaError | None] = [None] * len(rules)
        if not is_dry:
            refusals = create_rules(links, rules)
        for sentence in _near_principals(links, wanted.principal):
            say(sentence)
    change = "would be added" if is_dry else "added"
    rows = [
        rule_row(rule, change="there already" if rule in there else change)
        for rule, refusal in zip(rules, refusals, strict=True)
        if refusal is None
    ]
    print_rows(rows, _COLUMNS, output)
    refuse(
        [
            f"{rule_words(rule)}: {refusal.reason}"
            for rule, refusal in zip(rules, refusals, strict=True)
            if refusal is not None
        ]
    )


def _all_of(rule: AclRule) -> AclFilter:
    """The filter for all rules of the same pattern and principal."""
    (kind, name, pattern_type), acl = rule
    return AclFilter(
        kind, name, pattern_type, acl.principal, None, AclOperation.ANY, acl.permission
    )


def _meant(
    wanted: WantedRules, permission: Permission, hosts: Iterable[str | None]
) -> list[AclFilter]:
    """The filters for what is to be taken back."""
    deeds = wanted.deeds() or [(each, AclOperation.ANY) for each in wanted.patterns()]
    return [
        AclFilter(*pattern, wanted.principal, host, operation, permission)
        for pattern, operation in deeds
        for host in hosts
    ]


def _none_found(links: ClusterLinks, wanted: WantedRules, permission: Permission) -> str:
    """The sentence about rules that are not there, with those that may be meant."""
    verb = "allows" if permission is Permission.ALLOW else "denies"
    rules = described_rules(links, [EVERYTHING._replace(permission=permission)])
    of_principal = [rule for rule in rules if rule.acl.principal == wanted.principal]
    if not of_principal:
        near = near_principal(wanted.principal, rules)
        return f"no rule {verb} {wanted.principal} anything{near}"
    patterns = sorted({rule.pattern for rule in of_principal})
    places = {pattern_words(pattern) for pattern in patterns}
    named = {pattern.name for pattern in wanted.patterns()}
    alike = {pattern_words(pattern) for pattern in patterns if pattern.name in named}
    asked = " ".join(pattern_words(pattern) for pattern in wanted.patterns())
    hint = did_you_mean(asked, alike) or did_you_mean(asked, places)
    hint = hint or f" (see `kbroker acl list {wanted.principal}`)"
    return f"no rule {verb} {wanted.principal} that{hint}"


def _near_principals(links: ClusterLinks, principal: str) -> list[str]:
    """A hint if nobody of this name logs in by SCRAM, but somebody of a similar one does."""
    from kbroker.client.scram_users import described_users

    user = principal.removeprefix(USER)
    try:
        users = described_users(links)
    except (KafkaError, ClientError, OSError):
        return []  # the broker knows no such request, or does not answer to us
    if not users or user in (*users, "*"):
        return []
    hint = did_you_mean(user, users)
    return [f"no user {user} logs in by SCRAM{hint}"] if hint else []
