"""Access rules in the words of `kbroker acl`: `allow User:ann read --topic orders- --prefixed`.

What a rule is printed as can be typed again. Operations may also be written as Kafka writes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from ipaddress import IPv4Address, ip_address
from shlex import quote
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from kbroker.acl.acl import (
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclResourceType,
    PatternType,
    Permission,
)
from kbroker.near_names import did_you_mean
from kbroker.wording import named, shown

MemberT = TypeVar("MemberT", bound=IntEnum)

USER = "User:"
_TYPED = re.compile(r"[A-Za-z]+:")
_OF_FILTERS = ("ANY", "MATCH")

OPTIONS: Mapping[AclResourceType, str] = MappingProxyType(
    {
        AclResourceType.TOPIC: "--topic",
        AclResourceType.GROUP: "--group",
        AclResourceType.CLUSTER: "--cluster",
        AclResourceType.TRANSACTIONAL_ID: "--transactional-id",
        AclResourceType.DELEGATION_TOKEN: "--token",
        AclResourceType.USER: "--user",
    }
)
"""The options that name resources of a kind."""

NOUNS: Mapping[AclResourceType, str] = MappingProxyType(
    {
        AclResourceType.TOPIC: "topic",
        AclResourceType.GROUP: "group",
        AclResourceType.CLUSTER: "cluster",
        AclResourceType.TRANSACTIONAL_ID: "transactional id",
        AclResourceType.DELEGATION_TOKEN: "delegation token",
        AclResourceType.USER: "user",
    }
)
"""The kinds of resources in sentences."""


class AclRule(NamedTuple):
    """A rule and the resources that it is about."""

    pattern: AclPattern
    acl: Acl


class RuleWordError(ValueError):
    """A word that is not one of a rule; the message is a sentence for a person."""


def word_of(member: IntEnum) -> str:
    """The word of a command for a member.

    >>> word_of(AclOperation.DESCRIBE_CONFIGS)
    'describe-configs'
    """
    return member.name.lower().replace("_", "-")


def member_of(kind: type[MemberT], text: str, noun: str) -> MemberT:
    """The member that a word stands for, in any of its spellings. Raises RuleWordError.

    >>> member_of(AclOperation, "DescribeConfigs", "operation").name
    'DESCRIBE_CONFIGS'
    """
    plain = re.sub(r"[-_]", "", text).lower()
    words = {word_of(each): each for each in kind if each.name not in _OF_FILTERS}
    for word, member in words.items():
        if word.replace("-", "") == plain:
            return member
    hint = did_you_mean(text, words) or f" (there are {named(words, len(words))})"
    raise RuleWordError(f"no such {noun}: {shown(text)}{hint}")


def operations_of(text: str) -> list[AclOperation]:
    """The operations that a text names, with commas between them. Raises RuleWordError."""
    words = [word.strip() for word in text.split(",")]
    found = [member_of(AclOperation, word, "operation") for word in words if word]
    if not found:
        raise RuleWordError("no operation is given")
    return list(dict.fromkeys(found))


def check_fits(operation: AclOperation, kind: AclResourceType) -> None:
    """Raise RuleWordError if nothing asks for this operation on that kind of resource."""
    supported = SUPPORTED_OPERATIONS[kind]
    if operation is not AclOperation.ALL and operation not in supported:
        words = named(map(word_of, sorted(supported)))
        raise RuleWordError(
            f"{word_of(operation)} means nothing for {OPTIONS[kind]} (there are {words}, all)"
        )


def principal_of(text: str) -> str:
    """The principal that a text means: a user, unless it names another type. Raises RuleWordError.

    >>> principal_of("ann"), principal_of("User:ann"), principal_of("*")
    ('User:ann', 'User:ann', 'User:*')
    """
    if not text or text == USER:
        raise RuleWordError("a principal has a name, as in User:ann")
    typed = _TYPED.match(text)
    if typed is None:
        return USER + text
    if typed[0] != USER and typed[0].lower() == USER.lower():
        raise RuleWordError(f"no such type of principals: {typed[0][:-1]}, did you mean {USER}?")
    return text


def host_of(text: str) -> str:
    """The host that a text means, as brokers compare it. Raises RuleWordError.

    >>> host_of("10.0.0.7"), host_of("::1"), host_of("*")
    ('10.0.0.7', '0:0:0:0:0:0:0:1', '*')
    """
    if text == WILDCARD:
        return text
    try:
        address = ip_address(text)
    except ValueError:
        raise RuleWordError(f"{shown(text)} is not an IP address, and no client has it") from None
    if isinstance(address, IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))


def rule_words(rule: AclRule) -> str:
    """The arguments of `kbroker acl` that make a rule.

    >>> ann = Acl("User:ann", "*", AclOperation.READ, Permission.ALLOW)
    >>> pattern = AclPattern(AclResourceType.TOPIC, "orders-", PatternType.PREFIXED)
    >>> rule_words(AclRule(pattern, ann))
    'allow User:ann read --topic orders- --prefixed'
    """
    pattern, acl = rule
    verb = "allow" if acl.permission is Permission.ALLOW else "deny"
    words = [verb, quote(acl.principal), word_of(acl.operation), pattern_words(pattern)]
    if acl.host != WILDCARD:
        words.append(f"--host {quote(acl.host)}")
    return " ".join(words)


def pattern_words(pattern: AclPattern) -> str:
    """The options of `kbroker acl` that mean a pattern."""
    option = OPTIONS[pattern.type]
    if pattern.type is AclResourceType.CLUSTER:
        return option
    ending = " --prefixed" if pattern.pattern_type is PatternType.PREFIXED else ""
    return f"{option} {quote(pattern.name)}{ending}"
