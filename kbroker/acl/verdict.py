"""A verdict on one operation: what `AclRules` decides, and the rule by which it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from kbroker.acl.acl import EVERYBODY, WILDCARD, Acl, AclOperation, AclResource, Permission
from kbroker.acl.acl_rules import AclRules, SuperUsers
from kbroker.acl.rule_words import AclRule, rule_words

_ALSO_ALLOWED_BY: Mapping[AclOperation, tuple[AclOperation, ...]] = MappingProxyType(
    {
        AclOperation.DESCRIBE: (
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
        ),
        AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
    }
)


class Asked(NamedTuple):
    """An operation that a principal is about to do; a host `*` is one that no rule names."""

    principal: str
    host: str
    operation: AclOperation
    resource: AclResource


class Verdict(NamedTuple):
    """Whether it is allowed, and by which rule, in the words of `kbroker acl`."""

    is_allowed: bool
    by: str


def verdict_on(asked: Asked, rules: Iterable[AclRule]) -> Verdict:
    """Judge by the rules that are about a resource, for somebody who is not a super user."""
    about = sorted(rules)
    if not about:
        return Verdict(is_allowed=False, by="no rule is about it")
    in_force = AclRules(SuperUsers())
    in_force.replace(
        {
            pattern: tuple(rule.acl for rule in found)
            for pattern, found in groupby(about, lambda rule: rule.pattern)
        }
    )
    is_allowed = in_force.is_granted(*asked)
    permission = Permission.ALLOW if is_allowed else Permission.DENY
    deciding = (rule for rule in about if rule.acl.permission is permission)
    found = next((rule for rule in deciding if _decides(rule.acl, asked)), None)
    return Verdict(is_allowed, "no rule allows it" if found is None else rule_words(found))


def of_other_hosts(asked: Asked, rules: Iterable[AclRule]) -> list[AclRule]:
    """The rules that would count for somebody at another host."""
    return [
        rule
        for rule in sorted(rules)
        if rule.acl.host not in (asked.host, WILDCARD)
        and _decides(rule.acl._replace(host=WILDCARD), asked)
    ]


def _decides(acl: Acl, asked: Asked) -> bool:
    """Whether a rule allows or denies this."""
    if acl.principal not in (asked.principal, EVERYBODY) or acl.host not in (asked.host, WILDCARD):
        return False
    if acl.operation in (AclOperation.ALL, asked.operation):
        return True
    implied = _ALSO_ALLOWED_BY.get(asked.operation, ())
    return acl.permission is Permission.ALLOW and acl.operation in implied
