"""ZkAcls: the access rules of a cluster, in the nodes where Kafka keeps them.

Law: a change expects the version that was read, and is written in one transaction with the
notification that makes every broker read it: none is lost to a simultaneous one, none goes
unnoticed. A node that cannot be read has rules all the same: it is reported, and read as CLOSED.
One whose last rule is taken back stays for a while: the versions of a node that is created again
begin at 0, and whoever read its rules before could not tell them from what it had then.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

from kbroker.acl.acl import CLOSED, RESOURCE_TYPES, AclPattern, Acls, PatternType, label_of
from kbroker.slices import slices
from kbroker.turns import turn
from kbroker.zk.nodes import acl_znodes
from kbroker.zk.tree import (
    BadVersionError,
    CreateOp,
    DeleteOp,
    NodeExistsError,
    NoNodeError,
    Op,
    SetOp,
    Stat,
    TreeError,
)
from kbroker.zk.zk_utils import MAX_CONFLICTS, ZkUtils
from kbroker.zk.znode_json import ZnodeFormatError

_log = logging.getLogger(__name__)

Change = Callable[[Acls], Acls]
"""The rules of a pattern afterwards, given those before."""
Refusal = TreeError | ZnodeFormatError
_Nodes = dict[AclPattern, tuple[bytes | None, Stat] | None]
_NO_RULES = acl_znodes.encode_acls(())
_ROW_NODES = 32  # read and decoded at a time: ten milliseconds, of a hundred rules each
EMPTY_KEPT_MS = 15 * 60 * 1000  # as long as the notifications; no change takes so long
_AGAIN = (BadVersionError, NodeExistsError, NoNodeError)


class ZkAcls:
    """The nodes under /kafka-acl and /kafka-acl-extended. Used on the event loop only."""

    def __init__(self, zk: ZkUtils) -> None:
        self._zk = zk

    async def create_paths(self) -> None:
        """Create the nodes that an authorizer of Kafka expects."""
        for path in acl_znodes.PERSISTENT_PATHS:
            await self._zk.create_if_absent(path)

    async def every(self, now_ms: int = 0) -> AsyncIterator[dict[AclPattern, Acls]]:
        """All patterns that have nodes, some at a time. Nodes that have had no rules for a while
        are removed.
        """
        for pattern_type, root in acl_znodes.ROOTS.items():
            for label in await self._zk.children(root):
                if acl_znodes.resource_type_of(label) is None:
                    _log.warning("%s/%s: rules about no kind of resource are ignored", root, label)
            for kind in RESOURCE_TYPES:
                names = await self._zk.children(f"{root}/{label_of(kind)}")
                for some in slices(names, _ROW_NODES):
                    patterns = [AclPattern(kind, name, pattern_type) for name in some]
                    nodes = await self._nodes(patterns)
                    yield _rules(nodes)
                    await self._remove_empty(nodes, now_ms - EMPTY_KEPT_MS)

    async def read(self, patterns: Iterable[AclPattern]) -> dict[AclPattern, Acls]:
        """The rules of some patterns as they are now; none for one without a node."""
        return _rules(await self._nodes(patterns))

    async def _nodes(self, patterns: Iterable[AclPattern]) -> _Nodes:
        wanted = list(patterns)
        paths = [acl_znodes.acl_path(pattern) for pattern in wanted]
        return dict(zip(wanted, await self._zk.tree.get_all(paths), strict=True))

    async def _remove_empty(self, nodes: _Nodes, before_ms: int) -> None:
        removals: list[list[Op]] = [
            [DeleteOp(acl_znodes.acl_path(pattern), node[1].version)]
            for pattern, node in nodes.items()
            if node is not None and node[0] == _NO_RULES and node[1].mtime_ms < before_ms
        ]
        if removals:  # those that have got rules meanwhile stay
            await self._zk.tree.multi_all(removals)

    async def update(
        self, changes: Mapping[AclPattern, Change]
    ) -> dict[AclPattern, Refusal | None]:
        """Change the rules of each pattern by itself, and notify all brokers; returns what refused
        it, None for one that is as wished now.
        """
        outcomes: dict[AclPattern, Refusal | None] = {}
        for some in slices(changes.items(), _ROW_NODES):
            await self._update(dict(some), outcomes)
            await turn()
        return outcomes

    async def _update(
        self, pending: dict[AclPattern, Change], outcomes: dict[AclPattern, Refusal | None]
    ) -> None:
        for _ in range(MAX_CONFLICTS):
            writes = await self._writes(pending, outcomes)
            results = await self._zk.tree.multi_all(list(writes.values()))
            is_parent_missing = False
            for pattern, result in zip(writes, results, strict=True):
                if isinstance(result, _AGAIN):
                    is_parent_missing |= isinstance(result, NoNodeError)
                    outcomes[pattern] = result  # in case that it is the last attempt
                    continue
                outcomes[pattern] = result if isinstance(result, TreeError) else None
                del pending[pattern]
            pending = {pattern: pending[pattern] for pattern in writes if pattern in pending}
            if not pending:
                break
            if is_parent_missing:
                await self.create_paths()

    async def _writes(
        self, changes: Mapping[AclPattern, Change], outcomes: dict[AclPattern, Refusal | None]
    ) -> dict[AclPattern, list[Op]]:
        """The transactions that are needed; the patterns that need none have their outcome."""
        paths = {pattern: acl_znodes.acl_path(pattern) for pattern in changes}
        nodes = await self._zk.tree.get_all(list(paths.values()))
        writes: dict[AclPattern, list[Op]] = {}
        for (pattern, path), node in zip(paths.items(), nodes, strict=True):
            try:
                before = () if node is None else acl_znodes.decode_acls(path, node[0])
            except ZnodeFormatError as error:
                outcomes[pattern] = error
                continue
            after = changes[pattern](before)
            outcomes[pattern] = None
            if set(after) != set(before):
                notification = CreateOp(
                    f"{acl_znodes.CHANGES[pattern.pattern_type]}/{acl_znodes.CHANGE_PREFIX}",
                    acl_znodes.encode_change(pattern),
                    sequential=True,
                )
                writes[pattern] = [_write(path, after, node and node[1]), notification]
        return writes


def _rules(nodes: _Nodes) -> dict[AclPattern, Acls]:
    return {
        pattern: () if node is None else _read(pattern, acl_znodes.acl_path(pattern), node[0])
        for pattern, node in nodes.items()
    }


def _read(pattern: AclPattern, path: str, data: bytes | None) -> Acls:
    try:
        return acl_znodes.decode_acls(path, data)
    except ZnodeFormatError as error:
        what = f"{label_of(pattern.type)} {pattern.name}"
        if pattern.pattern_type is PatternType.PREFIXED:
            what += "..."
        _log.error("only super users may use %s, as its rules cannot be read: %s", what, error)
        return CLOSED


def _write(path: str, after: Acls, stat: Stat | None) -> Op:
    if stat is None:
        return CreateOp(path, acl_znodes.encode_acls(after))
    return SetOp(path, acl_znodes.encode_acls(after), stat.version)
