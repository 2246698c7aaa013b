"""ZkAdminRequests: people's requests to the controller in nodes under /admin (the way of tools
before KIP-455 and KIP-460, which Kafka 3.9 still takes).

Law: a node that cannot be understood is reported and counts as an empty request, so that it is
removed like the others. Changes are fenced by the controller epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbroker.model import TopicPartition
from kbroker.zk.nodes.admin_znodes import (
    decode_preferred_election,
    decode_reassignment,
    encode_reassignment,
)
from kbroker.zk.tree import CreateOp, NoNodeError, SetOp, Watch
from kbroker.zk.zk_paths import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS
from kbroker.zk.zk_utils import ZkUtils


class ZkAdminRequests:
    """The requests in the tree. Used on the event loop only."""

    def __init__(self, zk: ZkUtils) -> None:
        self._zk = zk

    async def reassignment(
        self, watch: Watch | None = None
    ) -> dict[TopicPartition, tuple[int, ...]] | None:
        """The target replicas, by partition; None if there is no request.

        The watch fires when a request comes, goes or changes.
        """
        node = await self._zk.look(REASSIGN_PARTITIONS, watch)
        return None if node is None else self._zk.decoded(decode_reassignment, node[0]) or {}

    async def set_reassignment(
        self, reassignment: Mapping[TopicPartition, Sequence[int]], epoch_version: int
    ) -> None:
        """Write down the moves that are left; the node goes with the last partition.

        Raises ControllerMovedError.
        """
        if not reassignment:
            await self._zk.delete_all([REASSIGN_PARTITIONS], epoch_version)
            return
        data = encode_reassignment(reassignment)
        try:
            await self._zk.fenced((SetOp(REASSIGN_PARTITIONS, data),), epoch_version)
        except NoNodeError:
            await self._zk.fenced((CreateOp(REASSIGN_PARTITIONS, data),), epoch_version)

    async def preferred_election(
        self, watch: Watch | None = None
    ) -> frozenset[TopicPartition] | None:
        """The partitions that their first replica should lead; None if there is no request.

        The watch fires when a request comes, goes or changes.
        """
        node = await self._zk.look(PREFERRED_REPLICA_ELECTION, watch)
        if node is None:
            return None
        return self._zk.decoded(decode_preferred_election, node[0]) or frozenset()

    async def delete_preferred_election(self, epoch_version: int) -> None:
        """Remove the request. Raises ControllerMovedError."""
        await self._zk.delete_all([PREFERRED_REPLICA_ELECTION], epoch_version)
