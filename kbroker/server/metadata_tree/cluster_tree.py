"""Where a broker's znode tree comes from: its own first data directory (standalone), a tree that
the brokers of this process share, or a ZooKeeper ensemble.

Law: whoever opens a tree closes it, after the last write of the broker; only this file knows which
kind it is, so the broker runs the same on both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from kbroker.clock import Clock
from kbroker.config.kafka_config import KafkaConfig
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.server.metadata_tree.tree_files import TreeDirectory
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.tree import Tree, TreeUnavailableError

_log = logging.getLogger(__name__)


class ClusterTree(Protocol):
    """A tree to be opened."""

    @property
    def own_directory(self) -> str | None:
        """The data directory that holds the tree; None for a tree that is not this broker's."""
        ...

    @property
    def is_ensemble(self) -> bool:
        """Return whether brokers of other machines may share it."""
        ...

    def __str__(self) -> str:
        """The tree as sentences for the operator name it."""
        ...

    async def open(self) -> Tree:
        """A session of this broker's own. Raises StartError, CorruptTreeError."""
        ...

    async def close(self) -> None: ...

    def refusal(self, error: TreeUnavailableError) -> Exception:
        """Return the error for the operator when a start did not get through to the tree."""
        ...


class OwnTree:
    """The tree of a standalone broker."""

    is_ensemble = False

    def __init__(self, clock: Clock, file_system: FileSystem, directory: str) -> None:
        """`directory` is locked before it is opened."""
        self.own_directory = directory
        self.on_failure: Callable[[StorageError], None] = lambda _: None
        self._clock = clock
        self._files = TreeDirectory(file_system, directory)
        self._store: EmbeddedTree | None = None

    def __str__(self) -> str:
        return f"the tree in {self.own_directory}"

    async def open(self) -> Tree:
        """Read the files of the tree, and keep them open."""
        self._files.on_failure = self.on_failure
        self._store = EmbeddedTree(self._clock, self._files)
        return self._store.session()

    async def close(self) -> None:
        """Write what is left, and close the files."""
        if self._store is not None:
            close_store(self._store)
            self._store = None

    def refusal(self, error: TreeUnavailableError) -> Exception:
        """The error says what is wrong with the disk."""
        return error

    def refuse(self, error: StorageError) -> None:
        """The directory has failed: the tree takes no more changes."""
        self._files.refuse(error)


class SharedTree:
    """One session over a store that somebody else keeps."""

    own_directory: str | None = None
    is_ensemble = False

    def __init__(self, store: EmbeddedTree, name: str) -> None:
        self._store = store
        self._name = name
        self._session: Tree | None = None

    def __str__(self) -> str:
        return self._name

    async def open(self) -> Tree:
        """Open a session with the ensemble."""
        self._session = self._store.session()
        return self._session

    async def close(self) -> None:
        """End the session, and leave the store to the others."""
        if self._session is not None:
            await self._session.close()

    def refusal(self, error: TreeUnavailableError) -> Exception:
        """The error says what is wrong with the disk."""
        return error


def tree_of(config: KafkaConfig, clock: Clock, file_system: FileSystem) -> ClusterTree:
    """Where the settings say that it is."""
    if config.zk.zookeeper_connect:
        from kbroker.server.metadata_tree.ensemble_tree import (
            EnsembleTree,  # only with an ensemble: kazoo's cost
        )

        return EnsembleTree(config.zk)
    return OwnTree(clock, file_system, config.log.data_directories()[0])


def close_store(store: EmbeddedTree) -> None:
    """Close an embedded tree; what cannot be written now is in its journal."""
    try:
        store.close()
    except TreeUnavailableError as error:
        _log.warning("The tree could not be closed; the next start reads its journal: %s", error)
