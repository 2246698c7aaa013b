"""FinalizedFeatureChangeListener: keeps the broker's picture of the cluster's features as the tree
has it (KIP-584).

Law: a broker that does not support what the cluster has settled on is no part of it: it neither
starts nor goes on. A node that cannot be read is reported, and what was known stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kbroker.features import unsupported_levels
from kbroker.model import FinalizedFeatures
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.zk.nodes.features import ZkFeatures
from kbroker.zk.tree import TreeError, WatchEvent
from kbroker.zk.zk_utils import ZkUtils
from kbroker.zk.zk_watchers import RETRY_BACKOFF_S
from kbroker.zk.znode_json import ZnodeFormatError

_log = logging.getLogger(__name__)


class UnsupportedFeaturesError(Exception):
    """The cluster has settled on levels that this broker does not support."""


class FinalizedFeatureChangeListener:
    """One per broker. Owned by the event loop."""

    def __init__(
        self,
        zk: ZkUtils,
        metadata: MetadataCache,
        waiter: MetadataWaiter,
        on_unsupported: Callable[[UnsupportedFeaturesError], None],
    ) -> None:
        """`waiter` is notified of every change; `on_unsupported` is told once the broker runs."""
        self._stored = ZkFeatures(zk)
        self._report = zk.report
        self._metadata = metadata
        self._waiter = waiter
        self._on_unsupported = on_unsupported
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the features and follow them. Raises UnsupportedFeaturesError."""
        await self._read()
        self._task = asyncio.create_task(self._run(), name="features")

    async def stop(self) -> None:
        """Follow them no longer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _on_event(self, _event: WatchEvent) -> None:
        self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._read()
            except UnsupportedFeaturesError as error:
                self._on_unsupported(error)
            except TreeError as error:
                # Perhaps nothing watches now: look again, or no change would ever be seen.
                _log.warning("the cluster's features cannot be read now: %r", error)
                await asyncio.sleep(RETRY_BACKOFF_S)
                self._changed.set()

    async def _read(self) -> None:
        try:
            node = await self._stored.read(self._on_event)
        except ZnodeFormatError as error:
            self._report(error)
            return
        found = FinalizedFeatures()
        if node is not None and node.is_enabled:
            found = FinalizedFeatures(node.levels, node.epoch)
        missing = unsupported_levels(found.levels, self._metadata.supported_features)
        if missing:
            levels = ", ".join(f"{name} {found.levels[name]}" for name in missing)
            raise UnsupportedFeaturesError(
                f"The cluster has settled on features that this broker does not support: {levels}. "
                "Lower them with kafka-features, or run a broker that supports them"
            )
        self._metadata.finalized_features = found
        self._waiter.notify()
