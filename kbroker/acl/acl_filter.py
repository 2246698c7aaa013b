"""AclFilter: which rules a request to describe some, or to delete some, means (KIP-290)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kbroker.acl.acl import (
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclResourceType,
    PatternType,
    Permission,
)


class AclFilter(NamedTuple):
    """A filter; None and ANY stand for whatever there is."""

    resource_type: AclResourceType
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission: Permission

    def matches_pattern(self, pattern: AclPattern) -> bool:
        """Whether it may mean rules of this pattern."""
        if self.resource_type not in (AclResourceType.ANY, pattern.type):
            return False
        if self.pattern_type is PatternType.MATCH:
            return self.name is None or is_about(pattern, self.name)
        if self.pattern_type not in (PatternType.ANY, pattern.pattern_type):
            return False
        return self.name in (None, pattern.name)

    def matches(self, acl: Acl) -> bool:
        """Whether it means this rule, if it is one of a pattern that it may mean."""
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def named_patterns(self) -> Iterator[AclPattern] | None:
        """The only patterns that it can mean; None if only a look at all of them can tell."""
        name = self.name
        if self.resource_type is AclResourceType.ANY or name is None:
            return None
        if self.pattern_type is PatternType.MATCH:
            return None
        is_any = self.pattern_type is PatternType.ANY
        kinds = (PatternType.LITERAL, PatternType.PREFIXED) if is_any else (self.pattern_type,)
        return (AclPattern(self.resource_type, name, kind) for kind in kinds)


EVERYTHING = AclFilter(
    AclResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, Permission.ANY
)
"""The filter that means all rules."""


def is_about(pattern: AclPattern, name: str) -> bool:
    """Whether a pattern is about the resource of this name, of the pattern's kind.

    >>> is_about(AclPattern(AclResourceType.TOPIC, "ord", PatternType.PREFIXED), "orders")
    True
    """
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, WILDCARD)
