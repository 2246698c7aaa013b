"""Rules described, created and deleted as requests ask for it, in the words of Kafka 3.9.

Law: what cannot be done about one pattern is done about the others. The rules of a pattern that
cannot be read are neither shown nor changed: somebody has to look at its node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kbroker.acl.acl import (
    CLOSED,
    CLUSTER_NAME,
    Acl,
    AclPattern,
    AclResourceType,
    Acls,
)
from kbroker.acl.acl_filter import AclFilter
from kbroker.acl.acl_rules import AclRules
from kbroker.admin.acl_authorizer import AclAuthorizer
from kbroker.admin.tree_unavailable import patiently
from kbroker.errors import ErrorCode, KafkaError
from kbroker.turns import in_turns
from kbroker.zk.nodes.acl_znodes import can_be_kept, check_principal
from kbroker.zk.nodes.acls import Change, Refusal
from kbroker.zk.tree import MAX_NODE_BYTES, NodeTooLargeError, Tree
from kbroker.zk.znode_json import ZnodeFormatError

Wish = tuple[AclPattern, Acl]
Found = dict[AclPattern, dict[Acl, int]]  # the filter that found a rule first


class Deleted(NamedTuple):
    """A rule that a filter found; `refusal` is why it is still there."""

    pattern: AclPattern
    acl: Acl
    refusal: KafkaError | None


class AclAdmin:
    """The rules of the tree, as administrators see and change them."""

    def __init__(self, tree: Tree, authorizer: AclAuthorizer) -> None:
        self._tree = tree
        self._authorizer = authorizer

    @property
    def _rules(self) -> AclRules:
        return self._authorizer.rules

    @property
    def rule_count(self) -> int:
        """How many rules there are."""
        return self._rules.count()

    def patterns(self, asked: AclFilter) -> Iterator[AclPattern | None]:
        """The patterns that a filter may mean, None for others that had to be looked at."""
        named = asked.named_patterns()
        if named is not None:
            yield from named
            return
        for pattern in self._rules.patterns():
            yield pattern if asked.matches_pattern(pattern) else None

    def acls(self, pattern: AclPattern, asked: AclFilter) -> list[Acl]:
        """The rules of a pattern that a filter means."""
        found = self._rules.acls(pattern)
        return [] if found is CLOSED else [acl for acl in found if asked.matches(acl)]

    async def create(self, wishes: Sequence[Wish]) -> list[KafkaError | None]:
        """Add rules; returns the refusal of each, or None. All is in force then."""
        refusals = [refusal_of(*wish) for wish in wishes]
        added: dict[AclPattern, list[Acl]] = {}
        for (pattern, acl), refusal in zip(wishes, refusals, strict=True):
            if refusal is None:
                added.setdefault(pattern, []).append(acl)
        changes = {pattern: partial(_with, acls) for pattern, acls in added.items()}
        outcomes = await self._change(changes)
        return [
            refusal or _error_of(outcomes[pattern])
            for (pattern, _), refusal in zip(wishes, refusals, strict=True)
        ]

    async def delete(self, filters: Sequence[AclFilter | None]) -> list[list[Deleted]]:
        """Delete the rules that filters mean; returns for each filter what it found first. None
        stands for a filter that means nothing.
        """
        candidates: dict[AclPattern, dict[int, AclFilter]] = {}
        for number, asked in enumerate(filters):
            if asked is not None:
                await in_turns(_note(self.patterns(asked), candidates, number, asked))
        found: Found = {}
        changes = {
            pattern: partial(_without, some, found.setdefault(pattern, {}))
            for pattern, some in candidates.items()
        }
        outcomes = await self._change(changes)
        results: list[list[Deleted]] = [[] for _ in filters]
        for pattern, numbers in found.items():
            for acl, number in numbers.items():
                deleted = Deleted(pattern, acl, _error_of(outcomes[pattern]))
                results[number].append(deleted)
        return results

    async def _change(
        self, changes: Mapping[AclPattern, Change]
    ) -> dict[AclPattern, Refusal | None]:
        if not changes:
            return {}
        return await patiently(self._tree, lambda: self._authorizer.change(changes))


def refusal_of(pattern: AclPattern, acl: Acl) -> KafkaError | None:
    """The refusal of a rule that there cannot be; None if there can."""
    if pattern.type is AclResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not pattern.name:
        return _invalid("Invalid empty resource name")
    if not can_be_kept(pattern.name):
        return _invalid("Failed to create ACL")
    try:
        check_principal(acl.principal)
    except ValueError as error:
        return _invalid(str(error))
    return None


def _note(
    patterns: Iterable[AclPattern | None],
    candidates: dict[AclPattern, dict[int, AclFilter]],
    number: int,
    asked: AclFilter,
) -> Iterator[None]:
    for pattern in patterns:
        if pattern is not None and can_be_kept(pattern.name):
            candidates.setdefault(pattern, {})[number] = asked
        yield


def _with(added: Sequence[Acl], before: Acls) -> Acls:
    return tuple(dict.fromkeys((*before, *added)))


def _without(filters: dict[int, AclFilter], found: dict[Acl, int], before: Acls) -> Acls:
    """The rules that no filter means; those that one does are `found`."""
    kept = []
    for acl in before:
        number = next((n for n, asked in filters.items() if asked.matches(acl)), None)
        if number is None:
            kept.append(acl)
        else:
            found.setdefault(acl, number)
    return tuple(kept)


def _error_of(refusal: Refusal | None) -> KafkaError | None:
    if refusal is None:
        return None
    if isinstance(refusal, ZnodeFormatError):
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Rules cannot be read: {refusal}")
    if isinstance(refusal, NodeTooLargeError):
        return _invalid(f"The rules of one resource take more than {MAX_NODE_BYTES} bytes")
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Others change these rules, too. Ask again.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
