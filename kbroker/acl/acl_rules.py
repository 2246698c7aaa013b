"""AclRules: all rules of a cluster, and what they allow, as Kafka 3.9's AclAuthorizer decides.

Law: a super user may do everything. Else a rule that denies wins over any that allows; without one
that allows, nothing is. To be allowed to read, write, delete or alter implies to describe, to alter
settings implies to describe them; a denial implies nothing. What no rule at all is about, all may
do if the cluster is set so.

Rules are found by the name and its beginnings, never by a walk over all. What was decided is
remembered within a bound, and forgotten when any rule changes. A change of several patterns is one
step: nobody sees a part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kbroker.acl.acl import (
    EVERYBODY,
    RESOURCE_TYPES,
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclResource,
    AclResourceType,
    Acls,
    PatternType,
    Permission,
)

KNOWN_MAX = 20_000  # decisions about a kind of resource: a few megabytes
_LONGEST_REMEMBERED = 249  # characters, as of a topic's name; clients may send longer ones
_EVERYTHING = sum(1 << operation for operation in AclOperation)
_IMPLY_DESCRIBE = sum(
    1 << each
    for each in (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
)


Somewhere = tuple[str, str, AclOperation, AclResourceType]
"""A principal, its host, and what it wants to do to any resource of a kind."""


class SuperUsers(NamedTuple):
    """Principals that need no rules, and whether nobody needs any where there are none."""

    names: frozenset[str] = frozenset()  # as in User:admin
    are_all_where_no_rule_is: bool = False  # allow.everyone.if.no.acl.found


class AclRules:
    """The rules in force. Owned by the event loop."""

    __slots__ = ("_of_types", "_somewhere", "_super_users", "since")

    def __init__(self, super_users: SuperUsers) -> None:
        self.since: object = object()  # the last change, whichever it was
        self._super_users = super_users
        # A list, by the number of the type: a member of an enum takes longer to hash.
        self._of_types = [_OfType() for _ in range(max(AclResourceType) + 1)]
        self._somewhere: dict[Somewhere, bool] = {}

    def __len__(self) -> int:
        return sum(len(each.literal) + len(each.prefixed) for each in self._of_types)

    def count(self) -> int:
        """The number of rules, of all patterns."""
        kinds = (kind for each in self._of_types for kind in (each.literal, each.prefixed))
        return sum(len(found.acls) for kind in kinds for found in kind.values())

    def is_granted(
        self, principal: str, host: str, operation: AclOperation, resource: AclResource
    ) -> bool:
        """Whether a principal at a host may do this."""
        kind, name = resource
        of_type = self._of_types[kind]
        key = principal, host, name
        granted = of_type.decided.get(key)
        if granted is None:
            granted = of_type.decided_before.get(key)
            if granted is None:
                granted = self._granted(principal, host, of_type, name)
            if len(name) <= _LONGEST_REMEMBERED:
                of_type.remember(key, granted)
        return bool(granted >> operation & 1)

    def is_granted_somewhere(self, *asked: *Somewhere) -> bool:
        """Whether a principal may do this to at least one resource of a kind (KIP-679)."""
        for _ in self.look_somewhere(*asked):
            pass
        found = self.known_somewhere(*asked)
        assert found is not None
        return found

    def known_somewhere(self, *asked: *Somewhere) -> bool | None:
        """The answer of `is_granted_somewhere`, if it is known without a look at many rules."""
        return True if asked[0] in self._super_users.names else self._somewhere.get(asked)

    def look_somewhere(self, *asked: *Somewhere) -> Iterator[None]:
        """Find out, name by name, what `is_granted_somewhere` answers. It is known then, unless a
        rule has changed meanwhile.
        """
        if self.known_somewhere(*asked) is not None:
            return
        principal, host, operation, kind = asked
        since, found = self.since, False
        askers = _askers(principal, host, operation)
        is_open = self._super_users.are_all_where_no_rule_is
        for found in self._of_types[kind].allowing(askers, is_open):
            if found:
                break
            yield
            if self.since is not since:
                return
        if len(self._somewhere) >= KNOWN_MAX:
            self._somewhere.clear()
        self._somewhere[asked] = found

    def acls(self, pattern: AclPattern) -> Acls:
        """The rules of a pattern; none if it has none."""
        found = self._of_types[pattern.type].of_kind(pattern.pattern_type).get(pattern.name)
        return () if found is None else found.acls

    def about(self, resource: AclResource, most: int) -> list[tuple[AclPattern, Acl]] | None:
        """The rules that are about a resource, with their patterns; None if there are more."""
        kind, name = resource
        of_type = self._of_types[kind]
        patterns = [AclPattern(kind, each) for each in {WILDCARD, name}]
        patterns += (
            AclPattern(kind, name[:length], PatternType.PREFIXED)
            for length in of_type.lengths()
            if length <= len(name)
        )
        found: list[tuple[AclPattern, Acl]] = []
        for pattern in patterns:
            acls = self.acls(pattern)
            if len(found) + len(acls) > most:
                return None
            found += ((pattern, acl) for acl in acls)
        return found

    def patterns(self) -> Iterator[AclPattern]:
        """All patterns that have rules; the rules may change while somebody goes on with these."""
        for kind in RESOURCE_TYPES:
            for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
                for name in list(self._of_types[kind].of_kind(pattern_type)):
                    yield AclPattern(kind, name, pattern_type)

    def replace(self, changes: Mapping[AclPattern, Acls]) -> None:
        """Take over all rules of some patterns, as they are now."""
        self.since = object()
        for pattern, acls in changes.items():
            self._of_types[pattern.type].replace(pattern, acls)
        for of_type in self._of_types:
            of_type.decided, of_type.decided_before = {}, {}
        self._somewhere.clear()

    def _granted(self, principal: str, host: str, of_type: _OfType, name: str) -> int:
        """The operations that are allowed, as bits."""
        if principal in self._super_users.names:
            return _EVERYTHING
        allowed = denied = 0
        is_any = False
        for found in of_type.about(name):
            is_any = True
            of_pattern = found.decided(principal, host)
            allowed |= of_pattern[0]
            denied |= of_pattern[1]
        if not is_any:
            return _EVERYTHING if self._super_users.are_all_where_no_rule_is else 0
        if allowed & _IMPLY_DESCRIBE:
            allowed |= 1 << AclOperation.DESCRIBE
        if allowed >> AclOperation.ALTER_CONFIGS & 1:
            allowed |= 1 << AclOperation.DESCRIBE_CONFIGS
        return allowed & ~denied


FEW_RULES = 64  # of a pattern: to walk over them once takes less than to sort them by who asks
_ALLOW = Permission.ALLOW  # a look into the class of an enum costs 70 ns
_BITS = [1 << number for number in range(max(AclOperation) + 1)]
_BITS[AclOperation.ALL] = _EVERYTHING
_NOTHING = 0, 0
_ANYBODY = EVERYBODY, WILDCARD
_Bits = dict[tuple[str, str], tuple[int, int]]
_Names = dict[str, None]
_Decided = dict[tuple[str, str, str], int]  # by principal, host and name


class _OfPattern:
    """The rules of one pattern."""

    __slots__ = ("_bits", "_principals", "acls")

    def __init__(self, acls: Acls) -> None:
        self.acls = acls
        self._principals: tuple[str, ...] = ()  # of the rules; made when needed, as most never are
        self._bits: _Bits | None = None

    def decided(self, principal: str, host: str) -> tuple[int, int]:
        """The operations that these rules allow and deny somebody, as bits."""
        allowed = denied = 0
        if len(self.acls) > FEW_RULES:
            found = self._by_asker()
            for asker in ((principal, host), (principal, WILDCARD), (EVERYBODY, host), _ANYBODY):
                bits = found.get(asker)
                if bits is not None:
                    allowed |= bits[0]
                    denied |= bits[1]
            return allowed, denied
        if not self._principals:
            self._principals = tuple(acl.principal for acl in self.acls)
        whom, hosts = self._principals, (host, WILDCARD)
        for who in (principal, EVERYBODY):
            index = -1
            for _ in range(whom.count(who)):  # which most rules are not about
                index = whom.index(who, index + 1)
                _, at, operation, permission = self.acls[index]
                if at in hosts:
                    if permission is _ALLOW:
                        allowed |= _BITS[operation]
                    else:
                        denied |= _BITS[operation]
        return allowed, denied

    def _by_asker(self) -> _Bits:
        """The allowed and the denied operations, by principal and host; made when needed."""
        if self._bits is None:
            found: _Bits = {}
            for principal, host, operation, permission in self.acls:
                asker = principal, host
                allowed, denied = found.get(asker, _NOTHING)
                if permission is _ALLOW:
                    found[asker] = allowed | _BITS[operation], denied
                else:
                    found[asker] = allowed, denied | _BITS[operation]
            self._bits = found
        return self._bits


class _OfType:
    """The rules about one kind of resource."""

    __slots__ = ("_lengths", "_names", "decided", "decided_before", "literal", "prefixed")

    def __init__(self) -> None:
        self.decided: _Decided = {}
        self.decided_before: _Decided = {}
        self.literal: dict[str, _OfPattern] = {}
        self.prefixed: dict[str, _OfPattern] = {}
        self._lengths: Counter[int] = Counter()  # of the prefixes
        self._names: dict[tuple[Acl, PatternType], _Names] = {}  # of the patterns with a rule

    def of_kind(self, pattern_type: PatternType) -> dict[str, _OfPattern]:
        return self.prefixed if pattern_type is PatternType.PREFIXED else self.literal

    def lengths(self) -> list[int]:
        """The lengths that prefixes have."""
        return list(self._lengths)

    def about(self, name: str) -> Iterator[_OfPattern]:
        """The rules of all patterns that are about a resource."""
        for each in {WILDCARD, name}:
            found = self.literal.get(each)
            if found is not None:
                yield found
        for length in self._lengths:
            if length <= len(name):
                found = self.prefixed.get(name[:length])
                if found is not None:
                    yield found

    def remember(self, key: tuple[str, str, str], granted: int) -> None:
        """Keep a decision; those that nobody asked for meanwhile go, half of all at once: to take
        the oldest out of a dict is a walk over all that went before it.
        """
        if len(self.decided) >= KNOWN_MAX // 2:
            self.decided, self.decided_before = {}, self.decided
        self.decided[key] = granted

    def replace(self, pattern: AclPattern, acls: Acls) -> None:
        """Take over all rules of a pattern."""
        _, name, pattern_type = pattern
        found = self.of_kind(pattern_type)
        before = found.pop(name, None)
        if before is not None:
            self._forget(name, pattern_type, before.acls)
        if not acls:
            return
        found[name] = _OfPattern(acls)
        if pattern_type is PatternType.PREFIXED:
            self._lengths[len(name)] += 1
        for acl in acls:
            self._names.setdefault((acl, pattern_type), {})[name] = None

    def _forget(self, name: str, pattern_type: PatternType, acls: Acls) -> None:
        if pattern_type is PatternType.PREFIXED:
            self._lengths[len(name)] -= 1
            if not self._lengths[len(name)]:
                del self._lengths[len(name)]
        for acl in acls:
            names = self._names[acl, pattern_type]
            del names[name]
            if not names:
                del self._names[acl, pattern_type]

    def allowing(
        self, askers: list[tuple[str, str, AclOperation]], is_open: bool
    ) -> Iterator[bool]:
        """Whether each name of those that the rules for `askers` allow is one that no other rule
        denies them.
        """
        denied = self._of(askers, Permission.DENY, PatternType.LITERAL)
        if any(WILDCARD in names for names in denied):
            return
        if is_open:
            yield True
        prefixes = self._of(askers, Permission.DENY, PatternType.PREFIXED)
        lengths = self.lengths() if prefixes else []
        for names in self._of(askers, Permission.ALLOW, PatternType.PREFIXED):
            for name in list(names):  # others may come while nobody looks
                yield not _has_beginning(name, lengths, prefixes)
        for names in self._of(askers, Permission.ALLOW, PatternType.LITERAL):
            for name in list(names):
                is_denied = any(name in each for each in denied)
                yield name == WILDCARD or not (is_denied or _has_beginning(name, lengths, prefixes))

    def _of(
        self,
        askers: Iterable[tuple[str, str, AclOperation]],
        permission: Permission,
        pattern_type: PatternType,
    ) -> list[_Names]:
        keys = ((Acl(*asker, permission), pattern_type) for asker in askers)
        return [self._names[key] for key in keys if key in self._names]


def _askers(
    principal: str, host: str, operation: AclOperation
) -> list[tuple[str, str, AclOperation]]:
    """The beginnings of the rules that are about somebody's operation."""
    return [
        (who, at, what)
        for who in (principal, EVERYBODY)
        for at in (host, WILDCARD)
        for what in (operation, AclOperation.ALL)
    ]


def _has_beginning(name: str, lengths: list[int], prefixes: list[_Names]) -> bool:
    """Whether one of these prefixes, which have no other lengths, is the beginning of a name."""
    if not prefixes:
        return False
    beginnings = [name[:length] for length in lengths if length <= len(name)]
    return any(beginning in names for names in prefixes for beginning in beginnings)
