"""The tree of a ZooKeeper ensemble (`zookeeper.connect`)."""

from __future__ import annotations

from kbroker.config.zk_config import ZkConfig
from kbroker.server.start_error import EnsembleUnreachableError
from kbroker.zk.tree import Tree


class EnsembleTree:
    """One session over an ensemble."""

    own_directory: str | None = None
    is_ensemble = True

    def __init__(self, config: ZkConfig) -> None:
        self._config = config
        self._tree: Tree | None = None

    def __str__(self) -> str:
        return f"ZooKeeper at {self._config.zookeeper_connect}"

    async def open(self) -> Tree:
        """Connect."""
        raise EnsembleUnreachableError(str(self))

    async def close(self) -> None:
        """End the session."""
        if self._tree is not None:
            await self._tree.close()
