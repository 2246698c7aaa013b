"""What brokers and the controller write through ZkUtils and its like comes out the same on an
ensemble and in an embedded tree, refusals included.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from compat_tests.running.prerequisites import NotAvailableError
from compat_tests.running.shared_zookeeper import fresh_chroot
from kbroker.model import Broker, EndPoint, LeaderAndIsr, ReplicaAssignment, TopicPartition
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.ensemble.kazoo_tree import open_kazoo_tree
from kbroker.zk.nodes.admin_znodes import encode_reassignment
from kbroker.zk.nodes.broker_sequence import generate_broker_id
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from kbroker.zk.nodes.producer_id_blocks import ProducerIdBlocks
from kbroker.zk.nodes.zk_admin_requests import ZkAdminRequests
from kbroker.zk.nodes.zk_notifications import ZkNotifications
from kbroker.zk.tree import (
    BadVersionError,
    NodeExistsError,
    NodeTooLargeError,
    NoNodeError,
    Tree,
    TreeError,
)
from kbroker.zk.tree_copy import read_tree
from kbroker.zk.zk_paths import PartitionStateWrite, TopicAssignment
from kbroker.zk.zk_utils import ControllerMovedError, ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock
from tests.fakes.trees.topic_nodes import create_topic

pytestmark = pytest.mark.java

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
HELD = ReplicaAssignment(replicas=(1,))
BROKER = Broker(broker_id=1, end_points=(EndPoint(listener_name="PLAINTEXT", host="h", port=9092),))


def assignment(partitions: int) -> TopicAssignment:
    return TopicAssignment(topic_id=UUID(int=7), partitions=dict.fromkeys(range(partitions), HELD))


async def refused(asked: object, error: type[Exception]) -> str:
    with pytest.raises(error) as refusal:
        await asked  # type: ignore[misc]
    return refusal.value.path if isinstance(refusal.value, TreeError) else str(refusal.value)


async def live(tree: Tree) -> list[object]:
    """The life of a small cluster; everything it answered."""
    zk = ZkUtils(tree, FixedClock())
    configs, requests, news = ZkEntityConfigs(zk), ZkAdminRequests(zk), ZkNotifications(zk)
    await zk.create_persistent_paths()
    said: list[object] = [await zk.get_or_create_cluster_id("C")]
    said += [await generate_broker_id(zk, 1000) for _ in range(2)]
    await zk.register_broker(BROKER)
    said += [broker.broker_id for broker in await zk.all_brokers()]
    epoch, version = await zk.register_controller_and_raise_epoch(1)
    said += [epoch, version, await zk.controller_id()]

    await create_topic(zk, "t", assignment(1), overrides={"a": "1"})
    said.append(await refused(create_topic(zk, "t", assignment(2)), NodeExistsError))
    said.append(await configs.overrides("topics", "t"))
    await tree.create("/config/topics/u", b"left behind")
    await create_topic(zk, "u", assignment(1))
    large = {"a": "x" * 1_048_001}
    said.append(
        await refused(create_topic(zk, "v", assignment(1), overrides=large), NodeTooLargeError)
    )
    node = await zk.topic_node("t")
    assert node is not None
    await zk.grow_topic("t", assignment(2), node[1])
    said.append(await refused(zk.grow_topic("t", assignment(3), node[1]), BadVersionError))
    said.append(sorted((await zk.topic_assignments(["t", "none", "u"])).items()))

    await configs.update("topics", "t", lambda old: old | {"b": "2"})
    await configs.update("users", "n/clients/c", lambda old: old | {"b": "2"})
    said.append(await refused(configs.update("topics", "no", lambda old: old), NoNodeError))
    said.append(await configs.all_overrides("topics", ["t", "u", "none"]))

    await zk.create_partition_paths([T0, T1], version)
    writes = [
        PartitionStateWrite(
            topic_partition=partition,
            leader_and_isr=LeaderAndIsr(leader=1, leader_epoch=0, isr=(1,)),
        )
        for partition in (T0, T1)
    ]
    said.append(await zk.write_partition_states(writes, epoch, version))
    said.append(await zk.write_partition_states(writes, epoch, version))
    said.append(await refused(zk.delete_topics({"t": [0, 1]}, version - 1), ControllerMovedError))

    await tree.create("/admin/reassign_partitions", encode_reassignment({T0: (1, 2)}))
    await requests.set_reassignment({T0: (2,)}, version)
    said.append(await requests.reassignment())
    await requests.set_reassignment({}, version)
    said.append(await requests.reassignment())
    await news.propagate_isr_changes([T0])
    await news.propagate_log_dir_event(1)
    said += [await news.isr_changes(), await news.log_dir_events()]
    await news.delete((await news.isr_changes())[0], version)
    said.append(await ProducerIdBlocks(zk).allocate(1))

    await zk.create_delete_topics(["t"])
    await zk.delete_topics({"t": [0, 1]}, version)
    await tree.create("/brokers/topics/u/by-hand/below", make_parents=True)
    await zk.delete_topics({"u": []}, version)
    said += [await zk.topics(), await zk.topic_deletions(), await configs.entities("topics")]
    await zk.delete_controller(version)
    return said


async def said_and_kept(tree: Tree) -> tuple[list[object], dict[str, bytes]]:
    """Without the difference of no data and empty data."""
    said = await live(tree)
    kept = (await read_tree(tree)).nodes
    return said, {path: data or b"" for path, data in kept.items()}


async def test_an_ensemble_and_an_embedded_tree_say_and_keep_the_same() -> None:
    try:
        tree = await open_kazoo_tree(fresh_chroot(), 20_000)
    except NotAvailableError as error:
        pytest.skip(str(error))
    try:
        there = await said_and_kept(tree)
    finally:
        await tree.close()

    assert there == await said_and_kept(EmbeddedTree(FixedClock()).session())
