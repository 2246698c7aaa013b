"""The znode tree: the home of all cluster metadata, and the only way to it.

Pure. This file is the interface: values, errors and the protocol that a store fulfils. A store may
be in this process (it then answers without suspending) or an ensemble; nobody above `zk` knows
which. The meaning of versions, ephemeral owners, sequential names, multi and one-shot watches is
ZooKeeper's.

Laws a store keeps:
- a transaction (`multi`, or any single write) happens whole or not at all, and gets one zxid,
  higher than any before;
- a watch fires once, on the event loop, after its change can be read; callbacks come in the order
  of the changes; the same callback set twice on one path fires once;
- when a session ends, its ephemeral nodes go in one transaction;
- a tree outlives its session: when the ensemble ends it (LOST), the tree opens another one by
  itself, reports CONNECTED, and has another `session_id` then. Requests through the session before
  fail with SessionExpiredError; its ephemeral nodes have to be created again;
- watches outlive both a broken connection and a session: once the tree is connected again, a watch
  fires if its node or children have changed meanwhile, with the type of the change;
- a write whose answer was lost with the connection is looked up, never blindly repeated: no
  sequential node is made twice, and no version check fails because of the tree's own write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kbroker.counters import CounterRegistry
from kbroker.errors import Trouble

ANY_VERSION = -1
NO_OWNER = 0  # ephemeral_owner of a persistent node
# An ensemble takes requests of 1,048,575 bytes with path, ACL and frame (jute.maxbuffer). All
# stores keep to it, or a tree could not move from one to another.
MAX_NODE_BYTES = 1_048_000


@dataclass(frozen=True, slots=True)
class Stat:
    """A node's metadata. Times are Unix milliseconds."""

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
    """The kinds of changes that a watch reports."""

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
    """The state of a session.

    The moves are CONNECTED -> SUSPENDED -> CONNECTED (the same session), and CONNECTED or SUSPENDED
    -> LOST -> CONNECTED (a new one).
    """

    CONNECTED = "connected"
    SUSPENDED = "suspended"  # the store cannot be reached now; the session may still live
    LOST = "lost"  # the session has ended, with its ephemeral nodes


Watch = Callable[[WatchEvent], None]
SessionListener = Callable[[SessionState], None]


@dataclass(frozen=True, slots=True)
class CheckOp:
    """Part of a multi: fails with BadVersionError unless the node has this version."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class CreateOp:
    """Part of a multi: creates a node; its result is the created path."""

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

    def __repr__(self) -> str:
        """The text for a log line: the path, and the first sentence about its kind."""
        sentence = (type(self).__doc__ or "").partition(";")[0].partition(".")[0]
        return f"{self.path}: {sentence[:1].lower()}{sentence[1:]}"


class NoNodeError(TreeError):
    """The node, or the parent of a node to create, does not exist."""


class NodeExistsError(TreeError):
    """The node to create exists already."""


class BadVersionError(TreeError):
    """The node has another version than the one expected."""


class NotEmptyError(TreeError):
    """The node to delete has children."""


class NoChildrenForEphemeralsError(TreeError):
    """An ephemeral node cannot have children."""


class NodeTooLargeError(TreeError):
    """The data is larger than the store takes: MAX_NODE_BYTES, or what an ensemble is set to."""


class TreeUnavailableError(TreeError):
    """The metadata tree cannot be reached or written now; the operation may be tried again."""


class TreeStorageError(TreeUnavailableError):
    """The disk under the store refuses: it is full, or it failed. `trouble` says which."""

    trouble = Trouble.DIRECTORY_UNUSABLE


class SessionExpiredError(TreeUnavailableError):
    """The session ended before the answer came; or the tree has been closed."""


class Tree(Protocol):
    """One session over a store of znodes. Used on the event loop only.

    A store says how transactions and reads get to it; single writes are transactions of one.
    """

    @property
    def session_id(self) -> int:
        """Owner of the ephemeral nodes made through this session; another one after LOST."""
        ...

    @property
    def state(self) -> SessionState: ...

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

        Raises NodeExistsError, NoNodeError (no parent), NoChildrenForEphemeralsError,
        NodeTooLargeError.
        """
        op = CreateOp(path, data, ephemeral, sequential)
        while True:
            try:
                made = (await self.multi((op,)))[0]
                assert isinstance(made, str)
                return made
            except NoNodeError:
                parent = path.rpartition("/")[0]
                if not make_parents or not parent:
                    raise
            with suppress(NodeExistsError):
                await self.create(parent, make_parents=True)

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """Replace the data if the node has this version.

        Raises NoNodeError, BadVersionError, NodeTooLargeError.
        """
        stat = (await self.multi((SetOp(path, data, version),)))[0]
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node. Raises NoNodeError, BadVersionError, NotEmptyError."""
        await self.multi((DeleteOp(path, version),))

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Do all or nothing.

        The error raised is the one of the first operation that fails, with its `op_index`.
        """
        ...

    async def multi_all(
        self, transactions: Sequence[Sequence[Op]]
    ) -> list[list[OpResult] | TreeError]:
        """Do many transactions in their order, each all or nothing by itself.

        Returns, per transaction, its results or the error that refused it. Everything is as durable
        as after `multi` when this returns; it may let other tasks run in between. Raises
        TreeUnavailableError if a store went away half way: some of them have been done then.
        """
        ...

    async def get_all(
        self, paths: Sequence[str], watch: Watch | None = None
    ) -> list[tuple[bytes | None, Stat] | None]:
        """Data and stat of many nodes, None for one that does not exist (and is not watched)."""
        ...

    def add_session_listener(self, listener: SessionListener) -> None:
        """Call `listener` on the event loop whenever the state of the session changes.

        At the time of the call `state` and `session_id` are the new ones.
        """
        ...

    def register(self, counters: CounterRegistry) -> None:
        """Register the measures of the way to the store; one in this process has none."""
        ...

    async def close(self) -> None:
        """End the session for good: its ephemeral nodes go. Closing twice does nothing."""
        ...
