"""A broker's own authorizer, with rules that tests put into force at once."""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.acl.acl import (
    EVERYBODY,
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclResourceType,
    PatternType,
    Permission,
)
from kbroker.acl.acl_rules import AclRules, SuperUsers
from kbroker.admin.acl_authorizer import AclAuthorizer
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock


class RuledAuthorizer(AclAuthorizer):
    """Rules come from the test, and not out of a tree."""

    def __init__(self, super_users: Iterable[str] = ()) -> None:
        zk = ZkUtils(EmbeddedTree(FixedClock()), FixedClock())
        self._all = SuperUsers(frozenset(super_users))
        super().__init__(zk, FixedClock(), self._all)

    def set(
        self,
        kind: AclResourceType,
        name: str,
        *allowed: AclOperation,
        denied: tuple[AclOperation, ...] = (),
        who: str = EVERYBODY,
        pattern_type: PatternType = PatternType.LITERAL,
    ) -> None:
        """Let these be all rules of a pattern."""
        acls = [Acl(who, WILDCARD, each, Permission.ALLOW) for each in allowed]
        acls += [Acl(who, WILDCARD, each, Permission.DENY) for each in denied]
        self.rules.replace({AclPattern(kind, name, pattern_type): tuple(acls)})

    def read_all_again(self) -> None:
        """Put rules aside in the place of those in force, as after a lost session."""
        anew = AclRules(self._all)
        anew.replace({each: self.rules.acls(each) for each in self.rules.patterns()})
        self.rules = anew
