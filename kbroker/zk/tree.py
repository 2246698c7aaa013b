"""The znode tree: where every piece of cluster metadata lives, and the only way to it.

This file is the interface alone: values, errors and the protocol that a store fulfils. A store may
be in this process (it then answers without suspending) or an ensemble; nobody above `zk` knows
which. The meaning of versions, ephemeral owners, sequential names, multi and one-shot watches is
ZooKeeper's.

Laws a store keeps:
- a transaction (`multi`, or any single write) happens whole or not at all, and gets one zxid,
  higher than any before;
- a watch fires once, on the event loop, after the change it tells of can be read; callbacks come in
  the order of the changes; the same callback set twice on one path fires once;
- when a session ends, its ephemeral nodes go in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

ANY_VERSION = -1
NO_OWNER = 0  # ephemeral_owner of a persistent node


@dataclass(frozen=True, slots=True)
class Stat:
    """What the tree knows about a node besides its data. Times are Unix milliseconds."""

    czxid: int  # transaction that created the node
    mzxid: int  # transaction that last changed its data
    ctime_ms: int
    mtime_ms: int
    version: int  # number of changes of the data
    cversion: int  # number of children created and deleted
    ephemeral_owner: int  # session id, or NO_OWNER
    data_length: int
    num_children: int


class EventType(Enum):
    """What a watch tells of."""

    CREATED = "created"
    DELETED = "deleted"
    DATA_CHANGED = "data-changed"
    CHILDREN_CHANGED = "children-changed"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change of one node, as seen by a watch."""

    type: EventType
    path: str


class SessionState(Enum):
    """How a session stands.

    LOST is final: ephemeral nodes and watches are gone, a new session is needed.
    """

    CONNECTED = "connected"
    SUSPENDED = "suspended"  # the store cannot be reached now; the session may still live
    LOST = "lost"


Watch = Callable[[WatchEvent], None]
SessionListener = Callable[[SessionState], None]


@dataclass(frozen=True, slots=True)
class CheckOp:
    """Part of a multi: fails with BadVersionError unless the node has this version."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class CreateOp:
    """Part of a multi: creates a node; its result is the path made."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetOp:
    """Part of a multi: sets the data; its result is the Stat after it."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class DeleteOp:
    """Part of a multi: deletes a node without children."""

    path: str
    version: int = ANY_VERSION


Op = CheckOp | CreateOp | SetOp | DeleteOp
OpResult = Stat | str | None  # set: Stat, create: path, check and delete: None


class TreeError(Exception):
    """A refused operation on the tree.

    `op_index` is the place of the failed operation inside a multi, else 0.
    """

    def __init__(self, path: str, op_index: int = 0) -> None:
        super().__init__(path)
        self.path = path
        self.op_index = op_index


class NoNodeError(TreeError):
    """The node, or the parent of a node to create, is not there."""


class NodeExistsError(TreeError):
    """The node to create is there already."""


class BadVersionError(TreeError):
    """The node has another version than the one expected."""


class NotEmptyError(TreeError):
    """The node to delete has children."""


class NoChildrenForEphemeralsError(TreeError):
    """An ephemeral node cannot have children."""


class SessionExpiredError(TreeError):
    """The session has ended; nothing can be asked through it any more."""


class TreeUnavailableError(TreeError):
    """The store cannot be reached or cannot be written now; the operation may be tried again."""


class Tree(Protocol):
    """One session over a store of znodes. Used on the event loop only."""

    @property
    def session_id(self) -> int:
        """Owner of the ephemeral nodes made through this session."""
        ...

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes | None, Stat]:
        """Data and stat.

        The watch fires when the data changes or the node goes. Raises NoNodeError.
        """
        ...

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Stat, or None. The watch fires when the node comes, goes or changes its data."""
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Names of the children, sorted.

        The watch fires when one comes or goes, or the node itself goes.
        """
        ...

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> str:
        """Create a node and return its path (with a ten-digit suffix when sequential).

        Raises NodeExistsError, NoNodeError (no parent), NoChildrenForEphemeralsError.
        """
        ...

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """Replace the data if the node has this version. Raises NoNodeError, BadVersionError."""
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node. Raises NoNodeError, BadVersionError, NotEmptyError."""
        ...

    async def multi(self, ops: Sequence[Op], *, lazy: bool = False) -> list[OpResult]:
        """Do all or nothing; `lazy`: one of many, which `flush` makes durable together.

        The error raised is that of the first operation that fails, with its `op_index`.
        """
        ...

    async def flush(self) -> None:
        """Return when every lazy `multi` before is as durable as the others were at once."""
        ...

    def add_session_listener(self, listener: SessionListener) -> None:
        """Call `listener` on the event loop whenever the state of the session changes."""
        ...

    async def close(self) -> None:
        """End the session: its ephemeral nodes go. Closing twice does nothing."""
        ...
