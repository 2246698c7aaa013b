"""Producer ids are given once in a cluster."""

from __future__ import annotations

import asyncio

import pytest

from kbroker.admin.producer_id_manager import ProducerIdManager
from kbroker.errors import KafkaError
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock


async def test_ids_of_two_brokers_never_meet_and_blocks_follow_each_other() -> None:
    tree = EmbeddedTree(FixedClock())
    managers = [ProducerIdManager(ZkUtils(tree.session(), FixedClock()), b) for b in (0, 1)]
    first = [await managers[0].generate() for _ in range(1001)]
    second = [await managers[1].generate() for _ in range(2)]
    assert first == [*range(1000), 1000]
    assert second == [2000, 2001]


async def test_callers_at_the_same_time_share_a_block() -> None:
    manager = ProducerIdManager(ZkUtils(EmbeddedTree(FixedClock()).session(), FixedClock()), 0)
    ids = await asyncio.gather(*(manager.generate() for _ in range(20)))
    assert sorted(ids) == list(range(20))


async def test_no_tree_is_a_code_the_client_tries_again_on() -> None:
    session = EmbeddedTree(FixedClock()).session()
    session.expire()
    manager = ProducerIdManager(ZkUtils(session, FixedClock()), 0)
    with pytest.raises(KafkaError) as refusal:
        await manager.generate()
    assert refusal.value.code.retriable


async def test_clients_wait_for_a_node_that_nobody_can_read_to_be_repaired() -> None:
    session = EmbeddedTree(FixedClock()).session()
    manager = ProducerIdManager(ZkUtils(session, FixedClock()), 0)
    await session.create("/latest_producer_id_block", b"by hand")
    with pytest.raises(KafkaError) as refusal:
        await manager.generate()
    assert refusal.value.code.retriable
    await session.delete("/latest_producer_id_block")
    assert await manager.generate() == 0


async def test_a_tree_that_goes_away_costs_no_ids_that_were_taken() -> None:
    session = EmbeddedTree(FixedClock()).session()
    manager = ProducerIdManager(ZkUtils(session, FixedClock()), 0)
    assert await manager.generate() == 0
    session.suspend()
    assert [await manager.generate() for _ in range(999)] == list(range(1, 1000))
    with pytest.raises(KafkaError):
        await manager.generate()
    session.expire()
    session.renew()
    assert await manager.generate() == 1000
