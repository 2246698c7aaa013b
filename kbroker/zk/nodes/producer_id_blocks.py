"""ProducerIdBlocks: the node from which brokers take producer ids, 1,000 at a time (KIP-98).

Law: every write expects the version that was read, so no id is ever in two blocks.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from kbroker.zk.tree import BadVersionError
from kbroker.zk.zk_paths import (
    MAX_PRODUCER_ID,
    PRODUCER_ID_BLOCK,
    PRODUCER_ID_BLOCK_SIZE,
    ProducerIdBlock,
    decode_producer_id_block,
    encode_producer_id_block,
)
from kbroker.zk.zk_utils import MAX_CONFLICTS, ZkUtils

# Clients may write under any id. An id above this, in the upper half, was not given out by a
# broker: after the highest of them no id would be left.
MAX_SKIPPED_ID: Final = MAX_PRODUCER_ID // 2


class ProducerIdBlocks:
    """The node /latest_producer_id_block. Used on the event loop only."""

    def __init__(self, zk: ZkUtils) -> None:
        self._zk = zk
        self._highest_id = -1  # seen so far: a node removed by hand must not start over

    async def allocate(self, broker_id: int) -> ProducerIdBlock:
        """Take the next block for a broker. Raises ZnodeFormatError, and BadVersionError if others
        keep taking blocks meanwhile.
        """
        for _ in range(MAX_CONFLICTS):
            last_id, version = await self._latest()
            block = _block(broker_id, last_id + 1)
            with suppress(BadVersionError):  # another broker took this block: look again
                await self._write(block, version)
                return block
        raise BadVersionError(PRODUCER_ID_BLOCK)

    async def skip(self, broker_id: int, highest_id: int) -> None:
        """Let blocks begin above `highest_id`, if they do not yet. Raises as `allocate` does."""
        first_id = highest_id // PRODUCER_ID_BLOCK_SIZE * PRODUCER_ID_BLOCK_SIZE
        for _ in range(MAX_CONFLICTS):
            last_id, version = await self._latest()
            if last_id >= highest_id:
                return
            with suppress(BadVersionError):
                await self._write(_block(broker_id, first_id), version)
        raise BadVersionError(PRODUCER_ID_BLOCK)

    async def _latest(self) -> tuple[int, int]:
        await self._zk.create_if_absent(PRODUCER_ID_BLOCK)
        data, stat = await self._zk.tree.get(PRODUCER_ID_BLOCK)
        last_id = decode_producer_id_block(data).last_id if data else -1
        self._highest_id = max(self._highest_id, last_id)
        return self._highest_id, stat.version

    async def _write(self, block: ProducerIdBlock, version: int) -> None:
        self._highest_id = max(self._highest_id, block.last_id)
        await self._zk.tree.set(PRODUCER_ID_BLOCK, encode_producer_id_block(block), version)


def _block(broker_id: int, first_id: int) -> ProducerIdBlock:
    last_id = first_id + PRODUCER_ID_BLOCK_SIZE - 1
    return ProducerIdBlock(broker_id=broker_id, first_id=first_id, last_id=last_id)
