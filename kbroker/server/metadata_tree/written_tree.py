"""The tree of a data directory whose logs were written without a broker."""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.log.disk.file_system import FileSystem
from kbroker.server.metadata_tree.topic_ops import TopicWithLogs, topic_ops
from kbroker.server.metadata_tree.tree_files import TreeDirectory
from kbroker.server.system_clock import SystemClock
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.zk_utils import ZkUtils


async def write_tree(
    file_system: FileSystem,
    directory: str,
    cluster_id: str,
    broker_id: int,
    topics: Iterable[TopicWithLogs],
) -> None:
    """Write a tree into a directory that has none; it is on the device when this returns.

    Raises TreeUnavailableError.
    """
    clock = SystemClock()
    store = EmbeddedTree(clock, TreeDirectory(file_system, directory))
    try:
        zk = ZkUtils(store.session(), clock)
        await zk.create_persistent_paths()
        await zk.get_or_create_cluster_id(cluster_id)
        ops = [op for topic in topics for op in topic_ops(topic, broker_id)]
        await zk.tree.multi(ops)
    finally:
        store.close()
