"""The source of a broker's znode tree: its own first data directory (standalone), a tree that the
brokers of this process share, or a ZooKeeper ensemble.

Law: whoever opens a tree closes it, after the last write of the broker, which runs the same on all
kinds.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from kbroker.clock import Clock
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.embedded.tree_directory import TreeDirectory
from kbroker.zk.tree import Tree, TreeError, TreeUnavailableError

_log = logging.getLogger(__name__)


class ClusterTree(ABC):
    """A tree to be opened; `str` names it in sentences for the operator.

    `own_directory` is the data directory that holds it, None if it is not this broker's own. An
    ensemble may be shared by brokers of other machines.
    """

    own_directory: str | None = None
    is_ensemble = False

    @abstractmethod
    async def open(self) -> Tree:
        """Open a session of this broker's own. Raises StartError, CorruptTreeError."""

    @abstractmethod
    async def close(self) -> None: ...

    def refusal(self, error: TreeError) -> Exception:
        """Return the error for the operator if a start did not get through to the tree; that of an
        embedded tree says what is wrong with the disk.
        """
        return error


class OwnTree(ClusterTree):
    """The tree of a standalone broker."""

    own_directory: str

    def __init__(self, clock: Clock, file_system: FileSystem, directory: str) -> None:
        """`directory` has to be locked before the tree is opened."""
        self.own_directory = directory
        self.on_failure: Callable[[StorageError], None] = lambda _: None
        self._clock = clock
        self._files = TreeDirectory(file_system, directory)
        self._store: EmbeddedTree | None = None

    def __str__(self) -> str:
        return f"the tree in {self.own_directory}"

    async def open(self) -> Tree:
        self._files.on_failure = self.on_failure
        self._store = EmbeddedTree(self._clock, self._files)
        return self._store.session()

    async def close(self) -> None:
        if self._store is not None:
            close_store(self._store)
            self._store = None

    def refuse(self, error: StorageError) -> None:
        """Take no more changes, because the directory has failed."""
        self._files.refuse(error)


class SharedTree(ClusterTree):
    """A session on an embedded tree that somebody else keeps."""

    def __init__(self, store: EmbeddedTree, name: str) -> None:
        self._store = store
        self._name = name
        self._session: Tree | None = None

    def __str__(self) -> str:
        return self._name

    async def open(self) -> Tree:
        self._session = self._store.session()
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def close_store(store: EmbeddedTree) -> None:
    """Close an embedded tree; whatever cannot be written now is in its journal."""
    try:
        store.close()
    except TreeUnavailableError as error:
        _log.warning("The tree could not be closed; the next start reads its journal: %s", error)
