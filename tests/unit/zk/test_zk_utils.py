"""ZkUtils writes what Kafka writes, fenced as Kafka fences it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kbroker.model import Broker, EndPoint, LeaderAndIsr, ReplicaAssignment, TopicPartition
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.tree import NodeExistsError, Op
from kbroker.zk.zk_paths import PartitionStateWrite, TopicAssignment, decode_uuid
from kbroker.zk.zk_utils import ControllerMovedError, ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock
from tests.fakes.trees.topic_nodes import create_topic

T0 = TopicPartition("t", 0)


@pytest.fixture
def tree() -> EmbeddedTree:
    return EmbeddedTree(FixedClock())


@pytest.fixture(autouse=True)
async def zk(tree: EmbeddedTree) -> ZkUtils:
    zk = ZkUtils(tree.session(), FixedClock())
    await zk.create_persistent_paths()
    return zk


def broker(broker_id: int) -> Broker:
    end_point = EndPoint(listener_name="PLAINTEXT", host="h", port=9092)
    return Broker(broker_id=broker_id, end_points=(end_point,))


def state_write(leader: int, expected_version: int | None) -> PartitionStateWrite:
    state = LeaderAndIsr(leader=leader, leader_epoch=0, isr=(leader,))
    return PartitionStateWrite(
        topic_partition=T0, leader_and_isr=state, expected_version=expected_version
    )


async def test_the_cluster_id_is_made_once(zk: ZkUtils) -> None:
    assert await zk.get_or_create_cluster_id("first") == "first"
    assert await zk.get_or_create_cluster_id("second") == "first"


async def test_a_brokers_epoch_is_the_transaction_of_its_registration_and_rises(
    zk: ZkUtils, tree: EmbeddedTree
) -> None:
    first = await zk.register_broker(broker(1))
    assert [b.epoch for b in await zk.all_brokers()] == [first]
    with pytest.raises(NodeExistsError):
        await ZkUtils(tree.session(), FixedClock()).register_broker(broker(1))
    await zk.tree.close()
    again = await ZkUtils(tree.session(), FixedClock()).register_broker(broker(1))
    assert again > first


async def test_one_of_two_becomes_controller_and_the_epoch_rises_by_one(
    zk: ZkUtils, tree: EmbeddedTree
) -> None:
    other = ZkUtils(tree.session(), FixedClock())
    assert await zk.register_controller_and_raise_epoch(1) == (1, 1)
    with pytest.raises(ControllerMovedError):
        await other.register_controller_and_raise_epoch(2)
    assert await other.controller_id() == 1
    await zk.tree.close()
    assert await other.controller_id() is None
    assert await other.register_controller_and_raise_epoch(2) == (2, 2)


async def test_a_controller_that_was_replaced_writes_nothing(zk: ZkUtils) -> None:
    _, old_version = await zk.register_controller_and_raise_epoch(1)
    await create_topic(zk, "t", assignment(), overrides={"retention.ms": "1"})
    await zk.create_partition_paths([T0], old_version)
    await zk.delete_controller(old_version)
    await zk.register_controller_and_raise_epoch(2)
    with pytest.raises(ControllerMovedError):
        await zk.write_partition_states([state_write(1, None)], 1, old_version)
    with pytest.raises(ControllerMovedError):
        await zk.delete_topics({"t": [0]}, old_version)
    assert await zk.partition_states([T0]) == {}
    assert await zk.existing_topics(["t"])


async def test_states_are_written_only_over_the_expected_version(zk: ZkUtils) -> None:
    epoch, version = await zk.register_controller_and_raise_epoch(1)
    await create_topic(zk, "t", assignment(), overrides={"retention.ms": "1"})
    await zk.create_partition_paths([T0], version)
    outcomes = [
        (await zk.write_partition_states([write], epoch, version))[T0]
        for write in (
            state_write(1, None),
            state_write(2, None),
            state_write(2, 0),
            state_write(3, 0),
        )
    ]
    assert outcomes == [0, None, 1, None]
    found = (await zk.partition_states([T0]))[T0].leader_and_isr
    assert (found.leader, found.partition_epoch) == (2, 1)


async def test_deleting_a_topic_leaves_no_node_of_it(zk: ZkUtils, tree: EmbeddedTree) -> None:
    epoch, version = await zk.register_controller_and_raise_epoch(1)
    before = [path for path, _, _ in tree.dump()]
    await create_topic(zk, "t", assignment(), overrides={"retention.ms": "1"})
    await zk.create_partition_paths([T0], version)
    await zk.write_partition_states([state_write(1, None)], epoch, version)
    await zk.create_delete_topics(["t"])
    await zk.delete_topics({"t": [0]}, version)
    assert [path for path, _, _ in tree.dump()] == before


async def test_a_deleted_topic_takes_overrides_and_wish_along_before_its_name_is_free(
    monkeypatch: pytest.MonkeyPatch, zk: ZkUtils, tree: EmbeddedTree
) -> None:
    _, version = await zk.register_controller_and_raise_epoch(1)
    await create_topic(zk, "t", assignment(), overrides={"retention.ms": "1"})
    await zk.create_partition_paths([T0], version)
    await zk.create_delete_topics(["t"])
    asked: list[Sequence[Op]] = []
    write = zk.fenced_all

    async def look(transactions: Sequence[Sequence[Op]], epoch_version: int) -> Any:
        asked.extend(transactions)
        return await write(transactions, epoch_version)

    monkeypatch.setattr(zk, "fenced_all", look)
    await zk.delete_topics({"t": [0]}, version)
    assert [[op.path for op in ops] for ops in asked] == [
        ["/brokers/topics/t/partitions/0/state"],
        ["/brokers/topics/t/partitions/0"],
        ["/brokers/topics/t/partitions"],
        ["/config/topics/t"],
        ["/brokers/topics/t", "/admin/delete_topics/t"],
    ]
    assert [path for path, _, _ in tree.dump() if path.endswith("/t")] == []


def assignment() -> TopicAssignment:
    return TopicAssignment(
        topic_id=decode_uuid("YtMWDdqcTLmj-sHRw0ceHg"),
        partitions={0: ReplicaAssignment(replicas=(1, 2, 3))},
    )


async def test_a_topic_is_gone_when_its_node_is_and_not_before(zk: ZkUtils) -> None:
    await zk.tree.create("/brokers/topics/t", b"1")
    waiting = asyncio.create_task(zk.topic_gone("t"))
    await zk.tree.set("/brokers/topics/t", b"2")
    await asyncio.sleep(0)
    still_there = not waiting.done()
    await zk.tree.delete("/brokers/topics/t")
    await asyncio.wait_for(waiting, 5)
    assert still_there
    await asyncio.wait_for(zk.topic_gone("never-there"), 5)


async def test_a_node_among_the_brokers_that_is_no_id_is_passed_over(zk: ZkUtils) -> None:
    await zk.tree.create("/brokers/ids/by-hand")
    await zk.register_broker(broker(3))
    assert [each.broker_id for each in await zk.all_brokers()] == [3]
