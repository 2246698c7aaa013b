"""The tree of a data directory whose logs were written without a broker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kbroker.log.disk.file_system import FileSystem
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.embedded.tree_directory import TreeDirectory
from kbroker.zk.nodes.topic_ops import TopicWithLogs, topic_ops
from kbroker.zk.zk_utils import ZkUtils


async def write_tree(
    file_system: FileSystem,
    directory: str,
    cluster_id: str,
    broker_id: int,
    topics: Iterable[TopicWithLogs],
    now_ms: int,
) -> None:
    """Write a tree into a directory that has none; it is on the device when this returns.

    `now_ms` is the Unix time of all nodes. Raises TreeUnavailableError.
    """
    clock = _Moment(now_ms)
    store = EmbeddedTree(clock, TreeDirectory(file_system, directory))
    try:
        zk = ZkUtils(store.session(), clock)
        await zk.create_persistent_paths()
        await zk.get_or_create_cluster_id(cluster_id)
        ops = [op for topic in topics for op in topic_ops(topic, broker_id)]
        await zk.tree.multi(ops)
    finally:
        store.close()


@dataclass(frozen=True, slots=True)
class _Moment:
    """Implements Clock: the whole tree is of one moment."""

    unix_ms: int

    def now_ms(self) -> int:
        return self.unix_ms

    def monotonic_ms(self) -> float:
        return 0.0
