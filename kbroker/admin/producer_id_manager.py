"""ProducerIdManager: hands out producer ids in blocks of 1,000 (KIP-98).

An id is never handed out twice in a cluster: a block is taken by a conditional write of
/latest_producer_id_block before its first id is used. The rest of a block is lost when the broker
stops.
"""

from __future__ import annotations

import asyncio

from kbroker.errors import ErrorCode, KafkaError
from kbroker.zk.nodes.producer_id_blocks import ProducerIdBlocks
from kbroker.zk.tree import TreeError
from kbroker.zk.zk_paths import ProducerIdBlock, ZnodeFormatError
from kbroker.zk.zk_utils import ZkUtils


class ProducerIdManager:
    """Hands out the ids of this broker's block. One per broker. Owned by the event loop."""

    def __init__(self, zk: ZkUtils, broker_id: int) -> None:
        self._blocks = ProducerIdBlocks(zk)
        self._zk = zk
        self._broker_id = broker_id
        self._next = 0
        self._last = -1
        self._taking: asyncio.Task[ProducerIdBlock] | None = None

    async def generate(self) -> int:
        """The next producer id.

        Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS if no block is to be had now.
        """
        while self._next > self._last:
            await self._take_block()
        producer_id = self._next
        self._next += 1
        return producer_id

    async def allocate_block(self, broker_id: int) -> ProducerIdBlock:
        """A block of ids that nobody else has. Raises as `generate` does."""
        try:
            return await self._blocks.allocate(broker_id)
        except TreeError as error:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from error
        except ZnodeFormatError as error:  # clients go on once somebody has repaired the node
            self._zk.report(error)
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from error

    async def _take_block(self) -> None:
        # Callers that find the block used up share one request for the next.
        if self._taking is None:
            self._taking = asyncio.create_task(
                self.allocate_block(self._broker_id), name="producer id block"
            )
        taking = self._taking
        try:
            block = await asyncio.shield(taking)
        finally:
            if taking.done() and self._taking is taking:
                self._taking = None
        if block.first_id > self._last:
            self._next, self._last = block.first_id, block.last_id
