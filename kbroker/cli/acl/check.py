"""`kbroker acl check`: what rules allow, and which one decides."""

from __future__ import annotations

from typing import Any

import click

from kbroker.acl.acl import WILDCARD, AclOperation, AclPattern, AclResource, PatternType, Permission
from kbroker.acl.acl_filter import AclFilter
from kbroker.acl.rule_words import RuleWordError, word_of
from kbroker.acl.verdict import Asked, Verdict, of_other_hosts, verdict_on
from kbroker.cli.acl.rule_options import (
    operation_argument,
    principal_argument,
    resource_options,
    rule_errors,
    wanted_rules,
)
from kbroker.cli.arguments.connection import ExitCode, bootstrap_option, cluster_links
from kbroker.cli.shown.output import counted, output_option, print_rows, say
from kbroker.client.access_rules import described_rules

_COLUMNS = ("principal", "host", "operation", "resource", "name", "verdict", "by")


@click.command(short_help="Say whether rules allow something, and which one decides.")
@principal_argument
@operation_argument(required=True)
@resource_options("Check")
@click.option("--host", metavar="IP", default=WILDCARD, help="At this address (default: at any).")
@output_option
@bootstrap_option
def check(bootstrap: str, output: str, host: str, **given: Any) -> None:
    """Say whether a principal is allowed operations, and by which rule. Exit code 1 says that one
    is denied.

    The rules are the cluster's, judged as brokers judge. Brokers show nobody their settings
    super.users, who may do everything, and allow.everyone.if.no.acl.found.
    """
    with rule_errors():
        wanted = wanted_rules({**given, "hosts": (host,)})
        if any(WILDCARD in names for names in wanted.names.values()):
            raise RuleWordError("'*' is not the name of a resource: give one")
    rows, is_fine, others = [], True, 0
    with cluster_links(bootstrap) as links:
        for pattern in wanted.patterns():
            rules = described_rules(links, [_about(pattern)])
            for operation in wanted.operations:
                resource = AclResource(pattern.type, pattern.name)
                asked = Asked(wanted.principal, wanted.hosts[0], operation, resource)
                verdict = verdict_on(asked, rules)
                is_fine &= verdict.is_allowed
                others += len(of_other_hosts(asked, rules)) if host == WILDCARD else 0
                rows.append(_row(asked, verdict))
    print_rows(rows, _COLUMNS, output)
    if others:
        say(f"{counted(others, 'rule')} for single addresses not looked at: give --host")
    if not is_fine:
        say("denied, unless super.users or allow.everyone.if.no.acl.found of brokers say otherwise")
        raise click.exceptions.Exit(ExitCode.ITEM_FAILED)


def _about(pattern: AclPattern) -> AclFilter:
    """The filter for the rules about a resource."""
    return AclFilter(
        pattern.type, pattern.name, PatternType.MATCH, None, None, AclOperation.ANY, Permission.ANY
    )


def _row(asked: Asked, verdict: Verdict) -> dict[str, Any]:
    return {
        "principal": asked.principal,
        "host": asked.host,
        "operation": word_of(asked.operation),
        "resource": word_of(asked.resource.type),
        "name": asked.resource.name,
        "verdict": "allowed" if verdict.is_allowed else "denied",
        "by": verdict.by,
    }
