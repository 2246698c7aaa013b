"""The words of access rules (ACLs): operations, kinds of resources, patterns, rules.

The numbers are those on the wire; the labels are those of Kafka's commands and nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple


def label_of(member: IntEnum) -> str:
    """Kafka's word for a member.

    >>> label_of(AclOperation.DESCRIBE_CONFIGS)
    'DescribeConfigs'
    """
    return "".join(part.capitalize() for part in member.name.split("_"))


class AclOperation(IntEnum):
    """The operations of rules; ALL is any of the others, ANY stands in filters."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class AclResourceType(IntEnum):
    """The kinds of resources of rules; ANY stands in filters."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The ways in which a name stands for resources; ANY and MATCH stand in filters."""

    ANY = 1
    MATCH = 2  # patterns that are about a resource of this name
    LITERAL = 3  # the resource of this name; with `*` every resource
    PREFIXED = 4  # the resources whose names begin so


class Permission(IntEnum):
    """The two kinds of rules; ANY stands in filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class AclResource(NamedTuple):
    """A thing that operations are done to."""

    type: AclResourceType
    name: str


class AclPattern(NamedTuple):
    """The resources that some rules are about."""

    type: AclResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL


class Acl(NamedTuple):
    """A rule: who, from where, does what, allowed or denied."""

    principal: str  # as in User:ann; User:* is everybody
    host: str  # an IP address as Java writes it; * is any
    operation: AclOperation
    permission: Permission


Acls = tuple[Acl, ...]
"""The rules of one pattern, each once."""

WILDCARD = "*"
EVERYBODY = "User:*"
CLUSTER_NAME = "kafka-cluster"
CLUSTER = AclResource(AclResourceType.CLUSTER, CLUSTER_NAME)
RESOURCE_TYPES = tuple(each for each in AclResourceType if each is not AclResourceType.ANY)
"""The kinds that a resource can have."""

CLOSED: Acls = (Acl(EVERYBODY, WILDCARD, AclOperation.ALL, Permission.DENY),)
"""Stands for rules that cannot be read: a deny among them must not vanish."""

SUPPORTED_OPERATIONS: Mapping[AclResourceType, frozenset[AclOperation]] = MappingProxyType(
    {
        AclResourceType.TOPIC: frozenset(
            {
                AclOperation.READ,
                AclOperation.WRITE,
                AclOperation.CREATE,
                AclOperation.DELETE,
                AclOperation.ALTER,
                AclOperation.DESCRIBE,
                AclOperation.DESCRIBE_CONFIGS,
                AclOperation.ALTER_CONFIGS,
            }
        ),
        AclResourceType.GROUP: frozenset(
            {
                AclOperation.READ,
                AclOperation.DELETE,
                AclOperation.DESCRIBE,
                AclOperation.DESCRIBE_CONFIGS,
                AclOperation.ALTER_CONFIGS,
            }
        ),
        AclResourceType.CLUSTER: frozenset(
            {
                AclOperation.CREATE,
                AclOperation.ALTER,
                AclOperation.DESCRIBE,
                AclOperation.CLUSTER_ACTION,
                AclOperation.DESCRIBE_CONFIGS,
                AclOperation.ALTER_CONFIGS,
                AclOperation.IDEMPOTENT_WRITE,
            }
        ),
        AclResourceType.TRANSACTIONAL_ID: frozenset({AclOperation.WRITE, AclOperation.DESCRIBE}),
        AclResourceType.DELEGATION_TOKEN: frozenset({AclOperation.DESCRIBE}),
        AclResourceType.USER: frozenset({AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS}),
    }
)
"""The operations that answers may list for a resource (KIP-430)."""
