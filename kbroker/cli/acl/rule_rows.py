"""Rules as rows of a table, and their principals in sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kbroker.acl.rule_words import USER, AclRule, word_of
from kbroker.near_names import did_you_mean

RULE_COLUMNS = ("principal", "host", "permission", "operation", "resource", "name", "pattern")


def rule_row(rule: AclRule, **more: Any) -> dict[str, Any]:
    """Return a row in the words of the command."""
    pattern, acl = rule
    return {
        "principal": acl.principal,
        "host": acl.host,
        "permission": word_of(acl.permission),
        "operation": word_of(acl.operation),
        "resource": word_of(pattern.type),
        "name": pattern.name,
        "pattern": word_of(pattern.pattern_type),
        **more,
    }


def near_principal(principal: str, rules: Iterable[AclRule]) -> str:
    """The rest of a sentence about a principal that has no rules: those of rules that look like it;
    empty if it has some.
    """
    known = {rule.acl.principal.removeprefix(USER) for rule in rules}
    name = principal.removeprefix(USER)
    return "" if name in known else did_you_mean(name, known)
