"""The nodes themselves: a hierarchy in memory, changed by transactions that happen whole or not at
all.

Pure: zxid and time come in as arguments. A node hangs in its parent's dict, so the short names of
partition nodes are shared between topics. Every applied operation leaves a function that takes it
back; a transaction that fails takes back what it did, last change first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from sys import intern

from kbroker.zk.tree import (
    ANY_VERSION,
    NO_OWNER,
    BadVersionError,
    CheckOp,
    CreateOp,
    DeleteOp,
    EventType,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    OpResult,
    SetOp,
    Stat,
    TreeError,
    WatchEvent,
)

Undo = Callable[[], None]


class Znode:
    """One node. `children` is None until the first child."""

    __slots__ = (
        "children",
        "ctime",
        "cversion",
        "czxid",
        "data",
        "mtime",
        "mzxid",
        "owner",
        "version",
    )

    def __init__(self, data: bytes | None, zxid: int, now_ms: int, owner: int) -> None:
        self.data = data
        self.czxid = self.mzxid = zxid
        self.ctime = self.mtime = now_ms
        self.version = 0
        self.cversion = 0
        self.owner = owner
        self.children: dict[str, Znode] | None = None

    @property
    def children_made(self) -> int:
        """The number of children ever created, which numbers the next sequential one.

        ZooKeeper counts these; its cversion counts creations and deletions together.
        """
        return (self.cversion + (len(self.children) if self.children else 0)) // 2

    def stat(self) -> Stat:
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            self.cversion,
            self.owner,
            len(self.data) if self.data is not None else 0,
            len(self.children) if self.children else 0,
        )


class AppliedTransaction:
    """An applied transaction: results for the caller, events for watches, and the way back."""

    __slots__ = ("events", "ops", "results", "undo")

    def __init__(self) -> None:
        self.ops: list[Op] = []  # as applied: sequential names resolved, checks left out
        self.results: list[OpResult] = []
        self.events: list[WatchEvent] = []
        self.undo: list[Undo] = []

    def take_back(self) -> None:
        """Restore the tree to the state before this transaction."""
        while self.undo:
            self.undo.pop()()


class DataTree:
    """All nodes, and which of them belong to which session."""

    def __init__(self) -> None:
        self.root = Znode(b"", 0, 0, NO_OWNER)
        self.ephemerals: dict[int, dict[str, None]] = {}

    def find(self, path: str) -> Znode | None:
        """The node at a path, or None."""
        node: Znode | None = self.root
        if path == "/":
            return node
        for name in path[1:].split("/"):
            if node is None or node.children is None:
                return None
            node = node.children.get(name)
        return node

    def require(self, path: str) -> Znode:
        """The node at a path; raises NoNodeError."""
        node = self.find(path)
        if node is None:
            raise NoNodeError(path)
        return node

    def apply(
        self, ops: Sequence[Op], zxid: int, now_ms: int, session_id: int
    ) -> AppliedTransaction:
        """Apply all operations in order. If one fails, take back the others and raise its error."""
        done = AppliedTransaction()
        try:
            for index, op in enumerate(ops):
                try:
                    self._apply_one(op, done, zxid, now_ms, session_id)
                except TreeError as error:
                    error.op_index = index
                    raise
        except TreeError:
            done.take_back()
            raise
        return done

    def walk(self) -> Iterator[tuple[str, Znode]]:
        """Every node with its path, parents before children; the root comes first as "/"."""
        stack: list[tuple[str, Znode]] = [("/", self.root)]
        while stack:
            path, node = stack.pop()
            yield path, node
            if node.children:
                prefix = path if path == "/" else path + "/"
                stack.extend(
                    (prefix + name, child) for name, child in reversed(node.children.items())
                )

    def _apply_one(
        self, op: Op, done: AppliedTransaction, zxid: int, now_ms: int, session_id: int
    ) -> None:
        if isinstance(op, CreateOp):
            path = self._create(op, done, zxid, now_ms, session_id)
            done.results.append(path)
            done.ops.append(CreateOp(path, op.data, op.ephemeral))
        elif isinstance(op, SetOp):
            done.results.append(self._set(op, done, zxid, now_ms))
            done.ops.append(op)
        elif isinstance(op, DeleteOp):
            self._delete(op, done)
            done.results.append(None)
            done.ops.append(op)
        else:
            self._check(op)
            done.results.append(None)

    def _check(self, op: CheckOp | SetOp | DeleteOp) -> Znode:
        node = self.require(op.path)
        if op.version not in (ANY_VERSION, node.version):
            raise BadVersionError(op.path)
        return node

    def _create(
        self, op: CreateOp, done: AppliedTransaction, zxid: int, now_ms: int, session_id: int
    ) -> str:
        path = op.path
        parent_path, _, name = path.rpartition("/")
        assert path.startswith("/"), path
        assert name or op.sequential, path
        parent = self.find(parent_path or "/")
        if parent is None:
            raise NoNodeError(path)
        if parent.owner != NO_OWNER:
            raise NoChildrenForEphemeralsError(path)
        if op.sequential:
            name = f"{name}{parent.children_made:010d}"
            path = f"{parent_path}/{name}"
        if parent.children is None:
            parent.children = {}
        elif name in parent.children:
            raise NodeExistsError(path)
        owner = session_id if op.ephemeral else NO_OWNER
        parent.children[intern(name)] = Znode(op.data, zxid, now_ms, owner)
        parent.cversion += 1
        if owner:
            self.ephemerals.setdefault(owner, {})[path] = None
        done.undo.append(lambda: self._undo_create(parent, name, path, owner))
        done.events.append(WatchEvent(EventType.CREATED, path))
        done.events.append(WatchEvent(EventType.CHILDREN_CHANGED, parent_path or "/"))
        return path

    def _undo_create(self, parent: Znode, name: str, path: str, owner: int) -> None:
        assert parent.children is not None
        del parent.children[name]
        parent.cversion -= 1
        if owner:
            self._disown(owner, path)

    def _set(self, op: SetOp, done: AppliedTransaction, zxid: int, now_ms: int) -> Stat:
        node = self._check(op)
        before = (node.data, node.mzxid, node.mtime, node.version)
        node.data, node.mzxid, node.mtime, node.version = op.data, zxid, now_ms, node.version + 1

        def undo() -> None:
            node.data, node.mzxid, node.mtime, node.version = before

        done.undo.append(undo)
        done.events.append(WatchEvent(EventType.DATA_CHANGED, op.path))
        return node.stat()

    def _delete(self, op: DeleteOp, done: AppliedTransaction) -> None:
        node = self._check(op)
        if node.children:
            raise NotEmptyError(op.path)
        assert op.path != "/"
        parent_path, _, name = op.path.rpartition("/")
        parent = self.require(parent_path or "/")
        assert parent.children is not None
        del parent.children[name]
        parent.cversion += 1
        if node.owner:
            self._disown(node.owner, op.path)
        done.undo.append(lambda: self._undo_delete(parent, name, node, op.path))
        done.events.append(WatchEvent(EventType.DELETED, op.path))
        done.events.append(WatchEvent(EventType.CHILDREN_CHANGED, parent_path or "/"))

    def _undo_delete(self, parent: Znode, name: str, node: Znode, path: str) -> None:
        assert parent.children is not None
        parent.children[name] = node
        parent.cversion -= 1
        if node.owner:
            self.ephemerals.setdefault(node.owner, {})[path] = None

    def _disown(self, owner: int, path: str) -> None:
        paths = self.ephemerals[owner]
        del paths[path]
        if not paths:
            del self.ephemerals[owner]
