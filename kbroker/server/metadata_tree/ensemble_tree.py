"""The tree of a ZooKeeper ensemble (`zookeeper.connect`)."""

from __future__ import annotations

import asyncio
import logging

from kbroker.config.zk_access import ZkAccess
from kbroker.config.zk_config import ZkConfig
from kbroker.errors import ConfigError
from kbroker.server.metadata_tree.cluster_tree import ClusterTree
from kbroker.server.start_error import StartError
from kbroker.zk.ensemble.kazoo_requests import RefusedByEnsembleError
from kbroker.zk.ensemble.kazoo_tree import (
    EnsembleLoginError,
    EnsembleUnreachableError,
    login_error,
    open_kazoo_tree,
)
from kbroker.zk.tree import Tree, TreeError, TreeUnavailableError

_log = logging.getLogger(__name__)

SILENCE_S = 2.0  # before the log says what is awaited


class EnsembleTree(ClusterTree):
    """The session of one broker on an ensemble."""

    is_ensemble = True

    def __init__(self, config: ZkConfig, access: ZkAccess | None = None) -> None:
        self._config = config
        self._access = access
        self._tree: Tree | None = None

    def __str__(self) -> str:
        return f"ZooKeeper at {self._config.zookeeper_connect}"

    async def open(self) -> Tree:
        """Connect. Raises ConfigError, and TreeUnavailableError if nobody answers in time."""
        config = self._config
        assert config.zookeeper_connect is not None
        limit_ms = config.zookeeper_connection_timeout_ms
        if limit_ms is None:
            limit_ms = config.zookeeper_session_timeout_ms
        sentence = asyncio.get_running_loop().call_later(
            SILENCE_S, _log.warning, "waiting up to %g s for %s", limit_ms / 1000, self
        )
        try:
            self._tree = await open_kazoo_tree(
                config.zookeeper_connect,
                config.zookeeper_session_timeout_ms,
                limit_ms,
                config.zookeeper_max_in_flight_requests,
                access=self._access,
            )
        except ValueError as error:
            raise ConfigError(f"zookeeper.connect: {error}") from error
        finally:
            sentence.cancel()
        return self._tree

    async def close(self) -> None:
        if self._tree is not None:
            await self._tree.close()

    def refusal(self, error: TreeError) -> Exception:
        if isinstance(error, RefusedByEnsembleError):
            return login_error(str(self._config.zookeeper_connect), error)
        is_explained = isinstance(error, EnsembleUnreachableError | EnsembleLoginError)
        if is_explained or not isinstance(error, TreeUnavailableError):
            return error
        return StartError(
            f"{self} could not be reached during the start (at {error.path}): check that it runs, "
            "and start again"
        )
