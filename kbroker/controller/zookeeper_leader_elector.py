"""ZookeeperLeaderElector: who is controller, decided by one ephemeral node.

Law: becoming controller and raising the controller epoch is one transaction, so an epoch belongs to
one broker; the node is watched from before it is read, so no change of it is missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kbroker.zk.tree import EventType, WatchEvent
from kbroker.zk.zk_utils import ControllerMovedError, ZkUtils

NO_CONTROLLER = -1


@dataclass(frozen=True, slots=True)
class Seat:
    """The controller's epoch, and the version of its node that fences the controller's writes."""

    epoch: int
    epoch_version: int


class ZookeeperLeaderElector:
    """Watches /controller and competes for it. Owned by the controller's queue."""

    def __init__(
        self,
        zk: ZkUtils,
        broker_id: int,
        on_change: Callable[[], None],
        on_vacancy: Callable[[], None],
    ) -> None:
        self._zk = zk
        self._broker_id = broker_id
        self._on_change = on_change
        self._on_vacancy = on_vacancy
        self.controller_id = NO_CONTROLLER

    async def look(self) -> int:
        """Read who is controller and watch for the next change; returns the id or NO_CONTROLLER."""
        found = await self._zk.controller_id(self._on_event)
        self.controller_id = NO_CONTROLLER if found is None else found
        return self.controller_id

    async def elect(self) -> Seat | None:
        """Compete for an empty seat. Returns the seat if this broker got it, else None."""
        if await self.look() != NO_CONTROLLER:
            return None
        try:
            epoch, version = await self._zk.register_controller_and_raise_epoch(self._broker_id)
        except ControllerMovedError:
            await self.look()
            return None
        self.controller_id = self._broker_id
        return Seat(epoch, version)

    def _on_event(self, event: WatchEvent) -> None:
        if event.type is EventType.DELETED:
            self._on_vacancy()
        else:
            self._on_change()
