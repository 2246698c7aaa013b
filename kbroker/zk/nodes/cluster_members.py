"""The cluster's brokers and its controller in the tree, for parts that have to decide whom to
trust.

Law: a read may be behind what others have written, as each server of an ensemble has its own copy;
after `catch_up` it shows all that was written before. A node that cannot be understood counts as
absent.
"""

from __future__ import annotations

from contextlib import suppress

from kbroker.zk import zk_paths
from kbroker.zk.tree import BadVersionError, CheckOp, NoNodeError, Tree, Watch
from kbroker.zk.zk_paths import ZnodeFormatError

NO_EPOCH = -1
_NEVER_A_VERSION = 2**31 - 1


class ClusterMembers:
    """Reads the nodes of the brokers and of the controller. Owned by the event loop."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    async def controller(self) -> tuple[int | None, int]:
        """The controller's id, None if there is none, and its epoch, -1 if there is none."""
        paths = [zk_paths.CONTROLLER_EPOCH, zk_paths.CONTROLLER]
        epoch_node, seat_node = await self._tree.get_all(paths)
        controller_id, epoch = None, NO_EPOCH
        with suppress(ZnodeFormatError):
            if epoch_node is not None:
                epoch = zk_paths.decode_controller_epoch(epoch_node[0])
        with suppress(ZnodeFormatError):
            if seat_node is not None:
                controller_id = zk_paths.decode_controller(seat_node[0])
        return controller_id, epoch

    async def broker_epoch(self, broker_id: int, watch: Watch) -> int | None:
        """The epoch under which a broker is registered, until the watch fires; None, without a
        watch, if it is not registered.
        """
        try:
            _, stat = await self._tree.get(zk_paths.broker_path(broker_id), watch)
        except NoNodeError:
            return None
        return stat.czxid

    async def catch_up(self) -> None:
        """Let the tree show everything that was written before this call.

        A transaction that is refused gets its place among all others, and changes nothing.
        """
        with suppress(BadVersionError, NoNodeError):
            await self._tree.multi((CheckOp(zk_paths.CONTROLLER_EPOCH, _NEVER_A_VERSION),))
