"""ZookeeperLeaderElector: the election of the controller by one ephemeral node.

Law: becoming controller and raising the controller epoch is one transaction, so an epoch belongs to
one broker; the node is watched from before it is read, so no change of it is missed. An epoch is
above all that this broker knows of, even if the node of the epoch was removed by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kbroker.model import NO_CONTROLLER
from kbroker.zk import zk_paths
from kbroker.zk.tree import EventType, WatchEvent
from kbroker.zk.zk_utils import ControllerMovedError, ZkUtils


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
        self._last_epoch = 0
        self.controller_id = NO_CONTROLLER

    async def look(self) -> int:
        """Read the controller's id and watch for the next change; returns it or NO_CONTROLLER."""
        found = await self._zk.controller_id(self._on_event)
        self.controller_id = NO_CONTROLLER if found is None else found
        return self.controller_id

    async def elect(self) -> Seat | None:
        """Compete for an empty seat. Returns the seat if this broker got it, else None."""
        try:
            epoch, version = await self._zk.register_controller_and_raise_epoch(
                self._broker_id, self._last_epoch
            )
        except ControllerMovedError:
            await self.look()
            return None
        self.controller_id = self._broker_id
        self._last_epoch = epoch
        return Seat(epoch, version)

    async def holds(self, seat: Seat) -> bool:
        """True while the tree says that this broker has the seat, and nobody has had it since."""
        if await self.look() != self._broker_id:
            return False
        stat = await self._zk.tree.exists(zk_paths.CONTROLLER_EPOCH)
        return stat is not None and stat.version == seat.epoch_version

    def outdo(self, epoch: int) -> None:
        """A controller of this epoch has existed: the next one gets a higher one."""
        self._last_epoch = max(self._last_epoch, epoch)

    async def clear_own_node(self) -> bool:
        """Give up a node of this very session that is not true: it was edited by hand, or this
        broker could not take over, or not give up, when it tried. Returns True if there is none
        (any more), and the seat is open.
        """
        _, version = await self._zk.controller_epoch()
        stat = await self._zk.tree.exists(zk_paths.CONTROLLER)
        if stat is None:
            return True
        if stat.ephemeral_owner != self._zk.tree.session_id:
            return False
        await self._zk.delete_controller(version)
        return True

    def _on_event(self, event: WatchEvent) -> None:
        if event.type is EventType.DELETED:
            self._on_vacancy()
        else:
            self._on_change()
