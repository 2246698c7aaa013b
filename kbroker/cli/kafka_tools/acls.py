"""kafka-acls: makes access rules, takes them back and lists them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby

from kbroker.acl.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclResourceType,
    PatternType,
    Permission,
)
from kbroker.acl.acl_filter import EVERYTHING, AclFilter
from kbroker.acl.rule_words import AclRule, RuleWordError, member_of
from kbroker.acl.wanted_rules import Roles, WantedRules
from kbroker.cli.arguments.connection import cluster_links
from kbroker.cli.kafka_tools.tool_options import BOOTSTRAP, Given, Option, Tool, ToolError
from kbroker.cli.shown.output import print_text
from kbroker.client.access_rules import create_rules, delete_rules, described_rules
from kbroker.client.cluster_links import ClusterLinks
from kbroker.errors import KafkaError

_OPTIONS = {
    AclResourceType.TOPIC: "topic",
    AclResourceType.GROUP: "group",
    AclResourceType.TRANSACTIONAL_ID: "transactional-id",
    AclResourceType.DELEGATION_TOKEN: "delegation-token",
    AclResourceType.USER: "user-principal",
}
_ROLES = ("producer", "consumer", "idempotent")
_CHANGES = ("add", "remove")


def _run(given: Given) -> int:
    action = given.action("add", "remove", "list")
    try:
        with cluster_links(given.bootstrap()) as links:
            if action == "add":
                _add(links, given)
            elif action == "remove":
                _remove(links, given)
            else:
                _list(links, given)
    except KafkaError as error:
        raise ToolError(f"Error while executing ACL command: {error.reason}") from error
    return 0


def _add(links: ClusterLinks, given: Given) -> None:
    kind_of = _kind_of_pattern(given)
    if kind_of not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise ToolError(
            f"A '--resource-pattern-type' value of '{kind_of.name}' is not valid when adding acls."
        )
    rules = sorted(set(_rules(given)))
    there = set(described_rules(links, [EVERYTHING]))
    for rule in rules:
        if rule in there:
            entry = f"(pattern={_resource(rule.pattern)}, entry={_entry(rule.acl)})"
            print_text(f"Acl {entry} already exists.")
    wanted = [rule for rule in rules if rule not in there]
    for pattern, found in groupby(wanted, lambda rule: rule.pattern):
        print_text(f"Adding ACLs for resource `{_resource(pattern)}`: \n {_entries(found)}\n")
    for refusal in create_rules(links, wanted):
        if refusal is not None:
            raise refusal


def _remove(links: ClusterLinks, given: Given) -> None:
    filters = list(_filters(given))
    if not given.has("force"):
        print_text("Are you sure you want to remove these ACLs? (y/n)")
        if sys.stdin.readline().strip().lower() != "y":
            return
    delete_rules(links, described_rules(links, filters))


def _list(links: ClusterLinks, given: Given) -> None:
    kind_of = _kind_of_pattern(given)
    filters = [
        EVERYTHING._replace(resource_type=kind, name=name, pattern_type=kind_of)
        for kind, name, _ in _patterns(given)
    ]
    rules = described_rules(links, filters or [EVERYTHING])
    for principal in given.all("principal") or (None,):
        if principal is not None:
            print_text(f"ACLs for principal `{principal}`")
        shown = [rule for rule in rules if principal in (None, rule.acl.principal)]
        for pattern, found in groupby(shown, lambda rule: rule.pattern):
            print_text(f"Current ACLs for resource `{_resource(pattern)}`: \n {_entries(found)}\n")


def _resource(pattern: AclPattern) -> str:
    kind, name, kind_of = pattern
    return f"ResourcePattern(resourceType={kind.name}, name={name}, patternType={kind_of.name})"


def _entries(rules: Iterable[AclRule]) -> str:
    return "\n".join(f"\t{_entry(acl)}" for _, acl in rules)


def _entry(acl: Acl) -> str:
    return (
        f"(principal={acl.principal}, host={acl.host}, operation={acl.operation.name}, "
        f"permissionType={acl.permission.name})"
    )


def _kind_of_pattern(given: Given) -> PatternType:
    text = given.one("resource-pattern-type")
    if text is None:
        return PatternType.LITERAL
    found = {each.name: each for each in PatternType}.get(text.upper())
    if found is None:
        known = ", ".join(PatternType.__members__)
        raise ToolError(f"--resource-pattern-type '{text}' is none of {known}")
    return found


def _names(given: Given) -> dict[AclResourceType, tuple[str, ...]]:
    names = {
        kind: tuple(name.strip() for name in given.all(option))
        for kind, option in _OPTIONS.items()
        if given.has(option)
    }
    if given.has("cluster"):
        names[AclResourceType.CLUSTER] = (CLUSTER_NAME,)
    return names


def _patterns(given: Given) -> list[AclPattern]:
    """The resources that are named; those of the cluster are always literal."""
    kind_of = _kind_of_pattern(given)
    return [
        AclPattern(kind, name, PatternType.LITERAL if kind is AclResourceType.CLUSTER else kind_of)
        for kind, names in _names(given).items()
        for name in dict.fromkeys(names)
    ]


def _rules(given: Given) -> Iterator[AclRule]:
    """The rules that are to be added. ToolError if the options do not say which."""
    if not _names(given):
        raise ToolError(
            "You must specify one of the resource types: --topic, --group, --cluster, "
            "--transactional-id, --delegation-token or --user-principal"
        )
    for permission, principal, host in _askers(given):
        for pattern, operation in _deeds(given):
            yield AclRule(pattern, Acl(principal, host, operation, permission))


def _askers(given: Given) -> list[tuple[Permission, str, str]]:
    found = []
    for permission, word in ((Permission.ALLOW, "allow"), (Permission.DENY, "deny")):
        principals = given.all(f"{word}-principal")
        if given.has(f"{word}-host") and not principals:
            raise ToolError(f"--{word}-host needs --{word}-principal")
        hosts = given.all(f"{word}-host") or [WILDCARD]
        found += [(permission, who.strip(), host) for who in principals for host in hosts]
    if not found and given.has("add"):
        raise ToolError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    for _, principal, _ in found:
        if ":" not in principal:
            raise ToolError(f"Could not parse principal '{principal}': it is not like User:ann")
    return found


def _deeds(given: Given) -> list[tuple[AclPattern, AclOperation]]:
    roles = Roles(*(given.has(each) for each in _ROLES))
    if any(roles):
        if given.has("operation"):
            raise ToolError("--operation does not go with --producer and --consumer")
        is_prefixed = _kind_of_pattern(given) is PatternType.PREFIXED
        wanted = WantedRules("", (), _names(given), is_prefixed, roles=roles)
        with _tool_errors():
            wanted.check()
        return wanted.deeds()
    operations = _operations(given)
    for pattern in _patterns(given):
        _check_supported(pattern.type, operations)
    return [(pattern, operation) for pattern in _patterns(given) for operation in operations]


def _operations(given: Given) -> list[AclOperation]:
    texts = given.all("operation") or ["All"]
    with _tool_errors():
        return [member_of(AclOperation, text.strip(), "operation") for text in texts]


@contextmanager
def _tool_errors() -> Iterator[None]:
    try:
        yield
    except RuleWordError as error:
        raise ToolError(str(error)) from error


def _check_supported(kind: AclResourceType, operations: Iterable[AclOperation]) -> None:
    supported = {*SUPPORTED_OPERATIONS[kind], AclOperation.ALL}
    if not supported.issuperset(operations):
        names = ", ".join(each.name for each in sorted(supported))
        raise ToolError(f"ResourceType {kind.name} only supports operations {names}")


def _filters(given: Given) -> Iterator[AclFilter]:
    """The filters of what is to be removed: all about the resources, if no principal is named."""
    patterns, askers = _patterns(given), _askers(given)
    if not patterns:
        raise ToolError("You must specify at least one resource to remove ACLs of")
    if not askers:
        for kind, name, kind_of in patterns:
            yield EVERYTHING._replace(resource_type=kind, name=name, pattern_type=kind_of)
        return
    for permission, principal, host in askers:
        for pattern, operation in _deeds(given):
            yield AclFilter(*pattern, principal, host, operation, permission)


TOOL = Tool(
    summary="makes access rules, takes them back and lists them.",
    options={
        **BOOTSTRAP,
        "add": Option("Add rules."),
        "remove": Option("Remove rules."),
        "list": Option("List rules."),
        "force": Option("Do not ask.", of=("remove",)),
        "topic": Option("A topic, * for all.", "NAME"),
        "group": Option("A consumer group, * for all.", "NAME"),
        "transactional-id": Option("A transactional id, * for all.", "NAME"),
        "delegation-token": Option("A delegation token, * for all.", "NAME"),
        "user-principal": Option("A user, whose tokens are meant.", "PRINCIPAL"),
        "cluster": Option("The cluster."),
        "resource-pattern-type": Option("literal, prefixed, and to find rules match, any.", "TYPE"),
        "allow-principal": Option("Who is allowed to, as in User:ann.", "PRINCIPAL", of=_CHANGES),
        "deny-principal": Option("Who is denied to.", "PRINCIPAL", of=_CHANGES),
        "allow-host": Option("From where it is allowed.", "HOST", of=_CHANGES),
        "deny-host": Option("From where it is denied.", "HOST", of=_CHANGES),
        "operation": Option("Read, Write and so on; All by default.", "NAME", of=_CHANGES),
        "producer": Option("All that producers do.", of=_CHANGES),
        "consumer": Option("All that consumers do.", of=_CHANGES),
        "idempotent": Option("With --producer: IdempotentWrite.", of=_CHANGES),
        "principal": Option("Only rules for this principal.", "PRINCIPAL", of=("list",)),
    },
    run=_run,
)
