"""FeatureUpdates: the controller keeps the cluster's levels of features.

Law: only the tree counts; a node that cannot be read is reported and left as it is, because writing
over it would enable or disable features for the whole cluster.
"""

from __future__ import annotations

import logging

from kbroker.controller.event_handlers.state_changes import StateChanges
from kbroker.controller.state_machines.feature_needs import TopicIds
from kbroker.controller.state_machines.feature_rules import (
    FeatureUpdateResult,
    UpdateFeatures,
    updated_levels,
)
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ZERO_UUID, SupportedFeature
from kbroker.zk.nodes.features import VERSION, FeatureZnode, ZkFeatures
from kbroker.zk.tree import BadVersionError, NoNodeError
from kbroker.zk.znode_json import ZnodeFormatError

_log = logging.getLogger(__name__)


class FeatureUpdates:
    """Works updates of features. Owned by the controller's queue."""

    def __init__(self, states: StateChanges, supported: tuple[SupportedFeature, ...]) -> None:
        self._context = states.context
        self._report = states.zk.report
        self._stored = ZkFeatures(states.zk)
        self._supported = supported

    async def enable(self) -> None:
        """Create the node in a new cluster, and make an old cluster's count from now on."""
        try:
            node = await self._stored.read()
        except ZnodeFormatError as error:
            self._report(error)
            return
        if node is None:
            await self._stored.create(
                {} if self._context.assignments else self._context.first_levels
            )
        elif not node.is_enabled or node.version != VERSION:
            levels = node.levels if node.is_enabled else {}
            await self._stored.write(levels, node.epoch, self._context.epoch_version)

    async def on_update(self, event: UpdateFeatures) -> FeatureUpdateResult:
        """Write the levels that are allowed."""
        node = await self._node()
        after, refusals = updated_levels(
            event.updates,
            node.levels if node is not None else {},
            self._supported,
            [broker.features for broker in self._context.live_brokers.values()],
            TopicIds(self._without_ids(), self._context.gives_topic_ids),
        )
        stops = event.all_or_nothing and any(refusals.values())
        if node is not None and (event.validate_only or stops or after == node.levels):
            return FeatureUpdateResult(refusals)
        epoch = None
        if node is not None:
            try:
                epoch = await self._stored.write(after, node.epoch, self._context.epoch_version)
            except (BadVersionError, NoNodeError) as error:
                _log.warning("something else changed the features meanwhile: %r", error)
        if epoch is None:
            refusals = {name: refusal or update_failed() for name, refusal in refusals.items()}
        return FeatureUpdateResult(refusals, epoch)

    def _without_ids(self) -> list[str]:
        context = self._context
        return [topic for topic in context.assignments if context.topic_id(topic) == ZERO_UUID]

    async def _node(self) -> FeatureZnode | None:
        try:
            return await self._stored.read()
        except ZnodeFormatError as error:
            self._report(error)
            return None


def update_failed() -> KafkaError:
    """Return the error for an allowed update that could not be written, or is not seen."""
    message = "Unable to update finalized features due to an unexpected server error."
    return KafkaError(ErrorCode.FEATURE_UPDATE_FAILED, message)
