"""The rules that somebody asks for in one line: a principal, what it does, and to which resources.

The sets for producers and consumers are those of Kafka's own tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kbroker.acl.acl import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclResourceType,
    PatternType,
    Permission,
)
from kbroker.acl.rule_words import NOUNS, OPTIONS, AclRule, RuleWordError, check_fits
from kbroker.topic_name import topic_name_fault
from kbroker.wording import shown

_TOPIC, _GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
_TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
_CLUSTER = AclPattern(AclResourceType.CLUSTER, CLUSTER_NAME)

_PRODUCER = {
    _TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    _TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_CONSUMER = {
    _TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    _GROUP: (AclOperation.READ,),
}
Deed = tuple[AclPattern, AclOperation]


class Roles(NamedTuple):
    """Whole sets of operations, in place of single ones."""

    producer: bool = False
    consumer: bool = False
    idempotent: bool = False  # a producer that is idempotent, before Kafka 3.0


class WantedRules(NamedTuple):
    """The parts of a line. Without operations and roles, all operations are meant."""

    principal: str
    operations: tuple[AclOperation, ...]
    names: Mapping[AclResourceType, tuple[str, ...]]
    is_prefixed: bool = False
    hosts: tuple[str, ...] = (WILDCARD,)
    roles: Roles = Roles()

    def check(self) -> None:
        """Raise RuleWordError if the parts do not fit together."""
        _check_roles(self)
        for kind, names in self.names.items():
            for name in names:
                _check_name(kind, name, is_prefixed=self.is_prefixed)
            if not any(self.roles):
                for operation in self.operations:
                    check_fits(operation, kind)
        if not any(self.names.values()):
            options = ", ".join(OPTIONS.values())
            raise RuleWordError(f"no resource is given: add one of {options}")

    def patterns(self) -> list[AclPattern]:
        """The resources that are named."""
        kind_of = PatternType.PREFIXED if self.is_prefixed else PatternType.LITERAL
        return [
            _CLUSTER if kind is AclResourceType.CLUSTER else AclPattern(kind, name, kind_of)
            for kind, names in self.names.items()
            for name in dict.fromkeys(names)
        ]

    def deeds(self) -> list[Deed]:
        """The operations that are asked for, with their resources, each once."""
        return list(dict.fromkeys(self._deeds()))

    def rules(self, permission: Permission) -> list[AclRule]:
        """The rules that allow all of it, or deny it."""
        return [
            AclRule(pattern, Acl(self.principal, host, operation, permission))
            for pattern, operation in self.deeds()
            for host in dict.fromkeys(self.hosts)
        ]

    def _deeds(self) -> Iterator[Deed]:
        for pattern in self.patterns():
            for operation in self.operations:
                yield pattern, operation
            for is_wanted, table in (
                (self.roles.producer, _PRODUCER),
                (self.roles.consumer, _CONSUMER),
            ):
                for operation in table.get(pattern.type, ()) if is_wanted else ():
                    yield pattern, operation
        if self.roles.idempotent:
            yield _CLUSTER, AclOperation.IDEMPOTENT_WRITE


def unusual_names(wanted: WantedRules) -> Iterator[str]:
    """Sentences about names that are taken as they are, and look as if more was meant."""
    for kind, names in wanted.names.items():
        for name in names:
            if len(name) > 1 and name.endswith(WILDCARD):
                yield (
                    f"{name} is taken as it is: for every {NOUNS[kind]} that begins with "
                    f"{name[:-1]} give {OPTIONS[kind]} {name[:-1]} --prefixed"
                )


def _check_name(kind: AclResourceType, name: str, *, is_prefixed: bool) -> None:
    noun, option = NOUNS[kind], OPTIONS[kind]
    if not name:
        raise RuleWordError(f"{option} is empty: give a name")
    if is_prefixed and name == WILDCARD:
        raise RuleWordError(f"{option} '*' is every {noun} already: leave out --prefixed")
    if kind is not _TOPIC or name == WILDCARD:
        return
    if name.endswith(WILDCARD) and topic_name_fault(name[:-1]) is None:
        raise RuleWordError(
            f"{shown(name)} is the name of no topic: for every topic that begins with "
            f"{name[:-1]} give --topic {name[:-1]} --prefixed"
        )
    fault = topic_name_fault(name)
    if fault is not None and not (is_prefixed and name in (".", "..")):
        raise RuleWordError(f"--topic {shown(name)}: {fault}")


def _check_roles(wanted: WantedRules) -> None:
    roles, names = wanted.roles, wanted.names
    if roles.idempotent and not roles.producer:
        raise RuleWordError("--idempotent is for --producer")
    if not any(roles):
        return
    if wanted.operations:
        raise RuleWordError("--producer and --consumer stand for operations: give either")
    if not names.get(_TOPIC):
        raise RuleWordError(f"--{'producer' if roles.producer else 'consumer'} needs --topic")
    if roles.consumer and not names.get(_GROUP):
        raise RuleWordError("--consumer needs --group")
    fitting = (_PRODUCER if roles.producer else {}).keys() | (
        _CONSUMER if roles.consumer else {}
    ).keys()
    for kind, given in names.items():
        if given and kind not in fitting:
            role = "--producer" if roles.producer else "--consumer"
            raise RuleWordError(f"{OPTIONS[kind]} does not go with {role}")
