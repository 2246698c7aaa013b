"""What AclAuthorizer of Kafka 3.9 decides, by a walk over all rules; and rules, names and questions
drawn from few words, so that many of them meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from kbroker.acl.acl import (
    Acl,
    AclOperation,
    AclPattern,
    AclResource,
    AclResourceType,
    Acls,
    PatternType,
    Permission,
)
from kbroker.acl.acl_rules import SuperUsers

PRINCIPALS = ("User:ann", "User:bob", "User:*", "Group:ann", "User:admin")
HOSTS = ("10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
NAMES = ("a", "ab", "abc", "abd", "b", "ba", "*", "ab*", "", "kafka-cluster", "é", "éa")
KINDS = tuple(each for each in AclResourceType if each is not AclResourceType.ANY)
OPERATIONS = tuple(each for each in AclOperation if each is not AclOperation.ANY)
IMPLYING = {
    AclOperation.DESCRIBE: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}

Stored = Mapping[AclPattern, Acls]


class Question(NamedTuple):
    """Somebody's wish."""

    principal: str
    host: str
    operation: AclOperation
    resource: AclResource


def is_granted(stored: Stored, super_users: SuperUsers, asked: Question) -> bool:
    """Whether the wish is granted."""
    if asked.principal in super_users.names:
        return True
    about = [acl for pattern, acls in stored.items() if is_about(pattern, asked) for acl in acls]
    if not about:
        return super_users.are_all_where_no_rule_is
    if any(speaks_of(acl, asked, asked.operation, Permission.DENY) for acl in about):
        return False
    operations = (asked.operation, *IMPLYING.get(asked.operation, ()))
    return any(
        speaks_of(acl, asked, operation, Permission.ALLOW)
        for acl in about
        for operation in operations
    )


def is_about(pattern: AclPattern, asked: Question) -> bool:
    if pattern.type is not asked.resource.type:
        return False
    if pattern.pattern_type is PatternType.PREFIXED:
        return asked.resource.name.startswith(pattern.name)
    return pattern.name in ("*", asked.resource.name)


def speaks_of(acl: Acl, asked: Question, operation: AclOperation, permission: Permission) -> bool:
    return (
        acl.permission is permission
        and acl.principal in ("User:*", asked.principal)
        and acl.host in ("*", asked.host)
        and acl.operation in (AclOperation.ALL, operation)
    )


def is_granted_somewhere(stored: Stored, super_users: SuperUsers, asked: Question) -> bool:
    """Whether the operation is granted on any resource of the kind."""
    if asked.principal in super_users.names:
        return True

    def names(permission: Permission, pattern_type: PatternType) -> set[str]:
        return {
            pattern.name
            for pattern, acls in stored.items()
            if pattern.type is asked.resource.type and pattern.pattern_type is pattern_type
            for acl in acls
            if speaks_of(acl, asked, asked.operation, permission)
        }

    denied = names(Permission.DENY, PatternType.LITERAL)
    if "*" in denied:
        return False
    if super_users.are_all_where_no_rule_is:
        return True
    beginnings = names(Permission.DENY, PatternType.PREFIXED)
    allowed = names(Permission.ALLOW, PatternType.LITERAL)
    if "*" in allowed:
        return True
    literal = allowed - denied
    candidates = literal | names(Permission.ALLOW, PatternType.PREFIXED)
    return any(not any(name.startswith(each) for each in beginnings) for name in candidates)


class Draw:
    """Draws rules and questions from a seed."""

    def __init__(self, seed: int, kinds: tuple[AclResourceType, ...] = KINDS[:2]) -> None:
        self.random = Random(seed)
        self.kinds = kinds

    def pattern(self) -> AclPattern:
        draw = self.random
        kind = draw.choice((PatternType.LITERAL, PatternType.PREFIXED))
        return AclPattern(draw.choice(self.kinds), draw.choice([n for n in NAMES if n]), kind)

    def acls(self) -> Acls:
        return tuple(dict.fromkeys(self.acl() for _ in range(self.random.randrange(5))))

    def acl(self) -> Acl:
        draw = self.random
        return Acl(
            draw.choice(PRINCIPALS[:4]),
            draw.choice(("*", "*", *HOSTS)),
            draw.choice(OPERATIONS),
            draw.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
        )

    def question(self) -> Question:
        draw = self.random
        return Question(
            draw.choice(PRINCIPALS),
            draw.choice(HOSTS),
            draw.choice(OPERATIONS[1:]),
            AclResource(draw.choice(self.kinds), draw.choice(NAMES)),
        )

    def super_users(self) -> SuperUsers:
        return SuperUsers(frozenset({"User:admin"}), self.random.random() < 0.3)
