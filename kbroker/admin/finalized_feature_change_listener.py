"""FinalizedFeatureChangeListener: keeps the broker's picture of the cluster's features up to date
with the tree (KIP-584).

Law: a broker that does not support the levels of the cluster neither starts nor goes on, because it
would work by other rules than the rest. A node that cannot be read is reported, and the levels last
known stay.
"""

from __future__ import annotations

from collections.abc import Callable

from kbroker.features import unsupported_levels
from kbroker.model import FinalizedFeatures
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.zk.nodes.features import ZkFeatures
from kbroker.zk.zk_utils import ZkUtils
from kbroker.zk.zk_watchers import RepeatedReading
from kbroker.zk.znode_json import ZnodeFormatError


class UnsupportedFeaturesError(Exception):
    """The cluster has settled on levels that this broker does not support."""


class FinalizedFeatureChangeListener:
    """Follows the node of the features. One per broker. Owned by the event loop."""

    def __init__(
        self,
        zk: ZkUtils,
        metadata: MetadataCache,
        waiter: MetadataWaiter,
        on_unsupported: Callable[[UnsupportedFeaturesError], None],
    ) -> None:
        """`waiter` hears of every change, `on_unsupported` gets levels that come at run time."""
        self._stored = ZkFeatures(zk)
        self._report = zk.report
        self._metadata = metadata
        self._waiter = waiter
        self._on_unsupported = on_unsupported
        self._reading = RepeatedReading("the cluster's features", self._read_again)

    async def start(self) -> None:
        """Read the features and follow them. Raises UnsupportedFeaturesError."""
        await self._read()
        self._reading.start()

    async def stop(self) -> None:
        await self._reading.stop()

    async def _read_again(self) -> None:
        try:
            await self._read()
        except UnsupportedFeaturesError as error:
            self._on_unsupported(error)

    async def _read(self) -> None:
        try:
            node = await self._stored.read(self._reading.on_event)
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
