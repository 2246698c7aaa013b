"""`kbroker acl`: lists access rules, makes them and takes them back, and says what they allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from kbroker.acl.acl import PatternType
from kbroker.acl.acl_filter import EVERYTHING, AclFilter
from kbroker.acl.rule_words import AclRule, host_of, principal_of
from kbroker.acl.wanted_rules import WantedRules
from kbroker.cli.acl.changes import allow, deny, revoke
from kbroker.cli.acl.check import check
from kbroker.cli.acl.rule_options import (
    hosts_option,
    names_of,
    prefixed_option,
    resource_options,
    rule_errors,
)
from kbroker.cli.acl.rule_rows import RULE_COLUMNS, near_principal, rule_row
from kbroker.cli.arguments.completion import principals
from kbroker.cli.arguments.connection import bootstrap_option, cluster_links
from kbroker.cli.arguments.refusals import refuse
from kbroker.cli.lazy_commands import CommandGroup
from kbroker.cli.shown.output import output_option, print_rows, say
from kbroker.client.access_rules import described_rules
from kbroker.client.cluster_links import ClusterLinks


@click.group(cls=CommandGroup)
def acl() -> None:
    """List rules of access, allow, deny, take back, and check what is allowed."""


for _command in (allow, deny, revoke, check):
    acl.add_command(_command)


@acl.command("list")
@click.argument("principals", nargs=-1, metavar="[PRINCIPAL...]", shell_complete=principals)
@resource_options("Rules about")
@prefixed_option
@hosts_option("Only rules for this address; may be repeated.")
@output_option
@bootstrap_option
def list_rules(
    bootstrap: str, output: str, principals: Sequence[str], hosts: Sequence[str], **names: Any
) -> None:
    """Print a line for each rule.

    A topic or another resource shows the rules that are about it, also those for '*' and for the
    beginning of its name. With --prefixed it is the beginning itself that rules are for.
    """
    with rule_errors():
        wanted = WantedRules("", (), names_of(names), names["prefixed"])
        who = [principal_of(each) for each in principals]
        where = [host_of(each) for each in hosts]
    with cluster_links(bootstrap) as links:
        rules = [
            rule
            for rule in described_rules(links, _filters(wanted))
            if (not who or rule.acl.principal in who) and (not where or rule.acl.host in where)
        ]
        missing = _without_rules(links, who, rules)
    print_rows([rule_row(rule) for rule in rules], RULE_COLUMNS, output)
    if not rules and not missing:
        is_all = not (wanted.names or where)
        say("no rules (make one with `kbroker acl allow`)" if is_all else "no rules like that")
    refuse(missing)


def _filters(wanted: WantedRules) -> list[AclFilter]:
    kind_of = PatternType.PREFIXED if wanted.is_prefixed else PatternType.MATCH
    return [
        EVERYTHING._replace(resource_type=kind, name=name, pattern_type=kind_of)
        for kind, name, _ in wanted.patterns()
    ] or [EVERYTHING]


def _without_rules(links: ClusterLinks, who: Sequence[str], rules: Sequence[AclRule]) -> list[str]:
    """Return a sentence about each principal that has no such rule."""
    found = {rule.acl.principal for rule in rules}
    missing = [each for each in dict.fromkeys(who) if each not in found]
    known = described_rules(links, [EVERYTHING]) if missing else []
    return [f"no such rule is for {each}{near_principal(each, known)}" for each in missing]
