"""No producer id is in two blocks, whoever takes them."""

from __future__ import annotations

import asyncio

import pytest

from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.nodes.producer_id_blocks import ProducerIdBlocks
from kbroker.zk.zk_paths import ZnodeFormatError
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock


def blocks_of(tree: EmbeddedTree) -> ProducerIdBlocks:
    return ProducerIdBlocks(ZkUtils(tree.session(), FixedClock()))


async def test_blocks_follow_each_other_across_brokers() -> None:
    tree = EmbeddedTree(FixedClock())
    first, second = blocks_of(tree), blocks_of(tree)
    blocks = [await first.allocate(0), await second.allocate(1), await first.allocate(0)]
    assert [(b.broker_id, b.first_id, b.last_id) for b in blocks] == [
        (0, 0, 999),
        (1, 1000, 1999),
        (0, 2000, 2999),
    ]


async def test_two_brokers_that_take_a_block_at_once_get_different_ones() -> None:
    tree = EmbeddedTree(FixedClock())
    zk = ZkUtils(tree.session(), FixedClock())
    read = asyncio.Event()
    get = zk.tree.get

    async def slow_get(path: str) -> object:
        found = await get(path)
        await read.wait()
        return found

    zk.tree.get = slow_get  # type: ignore[method-assign,assignment]
    late = asyncio.create_task(ProducerIdBlocks(zk).allocate(0))
    await asyncio.sleep(0)
    early = await blocks_of(tree).allocate(1)
    read.set()
    assert [early.first_id, (await late).first_id] == [0, 1000]


async def test_blocks_skip_what_logs_have_seen_and_never_go_back() -> None:
    blocks = blocks_of(EmbeddedTree(FixedClock()))
    await blocks.skip(1, -1)
    assert (await blocks.allocate(1)).first_id == 0
    await blocks.skip(1, 2001)
    assert (await blocks.allocate(1)).first_id == 3000
    await blocks.skip(1, 5)
    assert (await blocks.allocate(1)).first_id == 4000


async def test_a_block_that_nobody_can_read_is_never_written_over() -> None:
    tree = EmbeddedTree(FixedClock())
    await tree.session().create(zk_paths.PRODUCER_ID_BLOCK, b"{by hand")
    with pytest.raises(ZnodeFormatError, match="/latest_producer_id_block"):
        await blocks_of(tree).allocate(1)
    with pytest.raises(ZnodeFormatError):
        await blocks_of(tree).skip(1, 5000)
    data, _ = await tree.session().get(zk_paths.PRODUCER_ID_BLOCK)
    assert data == b"{by hand"


async def test_a_node_removed_by_hand_does_not_begin_anew() -> None:
    tree = EmbeddedTree(FixedClock())
    blocks = blocks_of(tree)
    await blocks.allocate(1)
    await tree.session().delete(zk_paths.PRODUCER_ID_BLOCK)
    assert (await blocks.allocate(1)).first_id == 1000


@pytest.mark.parametrize(
    ("first_id", "last_id"), [("5", "4"), ("-1", "999"), ("0", str(2**63 - 1)), ("0", "x")]
)
def test_a_block_of_ids_that_cannot_be_is_refused(first_id: str, last_id: str) -> None:
    data = f'{{"version":1,"broker":1,"block_start":"{first_id}","block_end":"{last_id}"}}'
    with pytest.raises(ZnodeFormatError, match="/latest_producer_id_block"):
        zk_paths.decode_producer_id_block(data.encode())
