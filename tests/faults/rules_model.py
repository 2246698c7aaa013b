"""What must hold of the access rules in a simulated cluster.

The tree is the truth: the model keeps every version of every node of rules. What a broker decides
by, its view, is for each pattern one of those versions: never an older one than before, none that is
older than a change it has confirmed, than its process or, while it can reach the tree, than the time
in which notifications come. So no denial is missing at any moment. What was confirmed stays in the
tree until somebody takes it back.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kbroker.acl.acl import (
    CLOSED,
    CLUSTER_NAME,
    Acl,
    AclOperation,
    AclPattern,
    AclResourceType,
    Acls,
    PatternType,
    Permission,
    label_of,
)
from kbroker.acl.acl_rules import SuperUsers
from kbroker.zk.embedded.data_tree import DataTree
from kbroker.zk.tree import Op, OpResult, SessionState
from tests.fakes.acls.acl_model import Question, is_granted, is_granted_somewhere
from tests.fakes.running.virtual_loop import OwnerState
from tests.faults.cluster_model import ClusterModel
from tests.faults.cluster_process import BrokerProcess

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
PATTERNS = (
    *(AclPattern(TOPIC, name) for name in ("t", "tt", "u", "*")),
    *(AclPattern(kind, "t", PatternType.PREFIXED) for kind in (TOPIC, GROUP)),
    AclPattern(TOPIC, "tt", PatternType.PREFIXED),
    AclPattern(GROUP, "tt"),
    AclPattern(CLUSTER, CLUSTER_NAME),
)
SUPER_USERS = SuperUsers(frozenset({"User:admin", "User:ANONYMOUS"}))
_OPERATIONS = {label_of(each): each for each in AclOperation}
_PERMISSIONS = {label_of(each): each for each in Permission}

Rules = frozenset[Acl]
View = tuple[Rules, ...]  # in the order of PATTERNS


def path_of(pattern: AclPattern) -> str:
    """The node of a pattern, as Apache Kafka names it."""
    root = (
        "/kafka-acl"
        if pattern.pattern_type is PatternType.LITERAL
        else "/kafka-acl-extended/prefixed"
    )
    return f"{root}/{label_of(pattern.type)}/{pattern.name}"


_PATHS = {path_of(pattern): number for number, pattern in enumerate(PATTERNS)}


def rules_in(data: bytes | None) -> Rules:
    """The rules of a node's bytes; a denial of everything if they are none."""
    if not data:
        return frozenset()
    try:
        document = json.loads(data)
        entries = document["acls"] if document["version"] == 1 else None
    except (ValueError, KeyError):
        entries = None
    if entries is None:
        return frozenset(CLOSED)
    return frozenset(
        Acl(
            each["principal"],
            each["host"],
            _OPERATIONS[each["operation"]],
            _PERMISSIONS[each["permissionType"]],
        )
        for each in entries
    )


@dataclass(slots=True)
class Wish:
    """The last wish about one rule; `is_there` is None if nobody can know."""

    is_there: bool | None = None
    under_way: int = 0
    is_contested: bool = False  # several at once, in whatever order
    begun: int = 0


@dataclass(slots=True)
class Seen:
    """All that a broker has shown so far."""

    lows: list[int]  # by pattern: the oldest version that its view may be
    raw: tuple[Acls, ...]
    view: View
    since: float
    reaches_tree_since: float | None = None
    reigned_at: float = -1.0  # when it was last seen as controller
    past: list[tuple[float, float, View]] = field(default_factory=list)  # from, until


class RulesModel(ClusterModel):
    """`notice_s` is the time in which a change is noticed by all that can reach the tree."""

    notice_s = 1.0

    def begin(self, notice_s: float) -> None:
        """Start with a tree that has no rules."""
        self.notice_s = notice_s
        self.versions: list[list[tuple[float, Rules]]] = [[(-1.0, frozenset())] for _ in PATTERNS]
        self.wishes: list[dict[Acl, Wish]] = [{} for _ in PATTERNS]
        self.seen: dict[BrokerProcess, Seen] = {}
        self.began: dict[BrokerProcess, list[int]] = {}

    # ---- the tree

    def on_commit(
        self, tree: DataTree, ops: Sequence[Op], results: Sequence[OpResult], session_id: int
    ) -> None:
        super().on_commit(tree, ops, results, session_id)
        for op in ops:
            number = _PATHS.get(op.path)
            if number is not None:
                node = tree.find(op.path)
                self._written_rules(number, rules_in(None if node is None else node.data))

    def _written_rules(self, number: int, rules: Rules) -> None:
        self.versions[number].append((self.now(), rules))
        self.say(f"tree: {_named(number)} has {len(rules)} rules")
        if rules == frozenset(CLOSED):
            for wish in self.wishes[number].values():  # what it had may come again
                wish.is_there = None
                wish.begun += 1
            return
        for acl, wish in self.wishes[number].items():
            if wish.is_there is not None and wish.is_there is not (acl in rules):
                what = "is lost" if wish.is_there else "has come back"
                self.violate("rule", f"{acl} of {_named(number)} {what}")

    # ---- what people ask for

    def ask(self, number: int, acl: Acl) -> tuple[int, int]:
        """A change of one rule begins; returns what `asked` needs."""
        wish = self.wishes[number].setdefault(acl, Wish())
        self.say(f"asked: {_named(number)} {_short(frozenset({acl}))}")
        wish.is_there = None
        wish.is_contested |= wish.under_way > 0
        wish.under_way += 1
        wish.begun += 1
        return len(self.versions[number]) - 1, wish.begun

    def asked(
        self, process: BrokerProcess, number: int, acl: Acl, since: tuple[int, int], *, added: bool
    ) -> None:
        """A broker has confirmed the change: it has to decide by it now."""
        version, begun = since
        history = self.versions[number]
        what = "added" if added else "deleted"
        self.say(f"{process} has {what}: {_named(number)} {_short(frozenset({acl}))}")
        wish = self.wishes[number].get(acl)
        if wish is not None and wish.begun >= begun:
            wish.under_way = max(0, wish.under_way - 1)
            is_readable = all(each != frozenset(CLOSED) for _, each in history[version:])
            is_alone = not wish.under_way and wish.begun == begun and not wish.is_contested
            if is_alone and is_readable:
                wish.is_there = added
            wish.is_contested &= wish.under_way > 0
        needed = next(
            (n for n in range(version, len(history)) if (acl in history[n][1]) is added), None
        )
        if needed is None:
            self.violate("confirmed", f"{process}: {acl} of {_named(number)}, which never was")
            return
        if process in self.seen:
            lows = self.seen[process].lows
            lows[number] = max(lows[number], needed)
            self.look(process, "after its answer")

    # ---- what brokers decide by

    def born(self, process: BrokerProcess) -> None:
        """A process begins; it reads its rules later."""
        self.began[process] = [len(each) - 1 for each in self.versions]

    def watch(self, processes: Sequence[BrokerProcess]) -> None:
        """Look at those that serve, once in each turn of the loop."""
        for process in processes:
            if not process.is_listening:
                continue
            seen = self.seen.get(process)
            raw = raw_view_of(process)
            if seen is None:
                seen = Seen(list(self.began[process]), raw, view_of(process), self.now())
                self.seen[process] = seen
                self.look(process, "at its start")
            elif raw != seen.raw:
                seen.raw = raw
                self.look(process, "after a change")
            if process.controller.is_active:
                seen.reigned_at = self.now()
            tree = process.tree
            reaches = (
                tree.state is SessionState.CONNECTED
                and tree.is_connected
                and process.owner.state is OwnerState.RUNNING
            )
            if not reaches:
                seen.reaches_tree_since = None
            elif seen.reaches_tree_since is None:
                seen.reaches_tree_since = self.now()

    def has_noticed(self, process: BrokerProcess) -> bool:
        """Whether a broker must have heard of all that was changed a while ago."""
        seen = self.seen.get(process)
        since = None if seen is None else seen.reaches_tree_since
        return since is not None and self.now() - since > self.notice_s

    def look(self, process: BrokerProcess, when: str) -> None:
        """Compare a broker's view with what was in the tree."""
        seen, now = self.seen[process], self.now()
        view = view_of(process)
        if view != seen.view:
            seen.past.append((seen.since, now, seen.view))
            seen.view, seen.since = view, now
        reaches = seen.reaches_tree_since
        for number, rules in enumerate(view):
            history = self.versions[number]
            low = seen.lows[number]
            if reaches is not None and now - reaches > self.notice_s:
                while low + 1 < len(history) and history[low + 1][0] < now - self.notice_s:
                    low += 1
            found = next((n for n in range(low, len(history)) if history[n][1] == rules), None)
            if found is None:
                text = f"{process} {when}: {_named(number)} {_short(rules)}, in the tree {_short(history[-1][1])}"
                self.violate("view", text)
                return
            seen.lows[number] = max(seen.lows[number], found)

    def views(self, process: BrokerProcess, begin: float, end: float) -> Iterator[View]:
        """The views that a broker had at some moment of a time."""
        seen = self.seen[process]
        for since, until, view in seen.past:
            if since <= end and until >= begin:
                yield view
        if seen.since <= end:
            yield seen.view


def raw_view_of(process: BrokerProcess) -> tuple[Acls, ...]:
    """The rules that a broker has, as they stand in its nodes."""
    authorizer = process.parts.authorizer
    assert authorizer is not None
    rules = authorizer.rules
    return tuple([rules.acls(pattern) for pattern in PATTERNS])


def view_of(process: BrokerProcess) -> View:
    """The rules that a broker decides by."""
    return tuple(map(frozenset, raw_view_of(process)))


def allows(view: View, asked: Question) -> bool:
    """Whether a view allows a wish, by a walk over all of it."""
    return is_granted(_stored(view), SUPER_USERS, asked._replace(host=java_address(asked.host)))


def allows_somewhere(view: View, asked: Question) -> bool:
    return is_granted_somewhere(
        _stored(view), SUPER_USERS, asked._replace(host=java_address(asked.host))
    )


def _stored(view: View) -> Mapping[AclPattern, tuple[Acl, ...]]:
    return {p: tuple(rules) for p, rules in zip(PATTERNS, view, strict=True) if rules}


def java_address(host: str) -> str:
    """An address as rules have it."""
    address: Any = ipaddress.ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        return str(mapped)
    if address.version == 4:
        return host
    return ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))


def _named(number: int) -> str:
    pattern = PATTERNS[number]
    suffix = "..." if pattern.pattern_type is PatternType.PREFIXED else ""
    return f"{label_of(pattern.type)} {pattern.name}{suffix}"


def _short(rules: Rules) -> list[str]:
    return sorted(
        f"{acl.permission.name} {acl.principal} {acl.operation.name} from {acl.host}"
        for acl in rules
    )


Decide = Callable[[View, Question], bool]
