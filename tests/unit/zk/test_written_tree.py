"""The tree of a directory whose logs were written without a broker is what a broker opens."""

from __future__ import annotations

from uuid import UUID

import pytest

from kbroker.server.metadata_tree.tree_location import has_tree
from kbroker.server.system_clock import SystemClock
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.embedded.tree_directory import TreeDirectory
from kbroker.zk.nodes.topic_ops import TopicWithLogs
from kbroker.zk.tree import TreeUnavailableError
from kbroker.zk.written_tree import write_tree
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.disks.memory_file_system import MemoryFileSystem

CLUSTER, ID = "cluster-of-writing-0000", UUID(int=7)
TOPIC = TopicWithLogs(name="t", topic_id=ID, leader_epochs=(5, 0), settings={"retention.ms": "-1"})


async def test_a_broker_finds_its_topics_with_ids_settings_and_leaders() -> None:
    disk = MemoryFileSystem()
    disk.make_directory("/data")

    await write_tree(disk, "/data", CLUSTER, 0, [TOPIC], 1_790_000_000_000)

    assert has_tree(disk, "/data")
    clock = SystemClock()
    store = EmbeddedTree(clock, TreeDirectory(disk, "/data"))
    zk = ZkUtils(store.session(), clock)
    assert await zk.get_or_create_cluster_id("another") == CLUSTER
    found = await zk.topic_node("t")
    assert found is not None
    assert found[0].topic_id == ID
    assert {number: each.replicas for number, each in found[0].partitions.items()} == {
        0: (0,),
        1: (0,),
    }
    store.close()


async def test_a_full_disk_is_told() -> None:
    disk = MemoryFileSystem(capacity_bytes=100)
    disk.make_directory("/data")

    with pytest.raises(TreeUnavailableError, match="free some space"):
        await write_tree(disk, "/data", CLUSTER, 0, [TOPIC], 1_790_000_000_000)
