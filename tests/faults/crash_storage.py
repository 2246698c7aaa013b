"""The storage of a broker over a disk that can lose power: data directories, tree and logs, opened
in the order in which KafkaServer opens them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor, Future
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar
from unittest.mock import patch
from uuid import UUID

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.file_system import FileSystem
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.recovery import log_opening
from kbroker.model import LeaderAndIsr, ReplicaAssignment
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.embedded.tree_directory import TreeDirectory
from kbroker.zk.zk_paths import TopicAssignment
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.running.virtual_time import VirtualTime
from tests.fakes.trees.topic_nodes import create_topic

LOG_DIRS = ("/a", "/b")
BROKER_ID = 0

TOPIC_CONFIG = TopicConfig(
    segment_bytes=1500,
    segment_index_bytes=1024,
    index_interval_bytes=150,
    retention_ms=60_000,
    file_delete_delay_ms=2_000,
    min_cleanable_dirty_ratio=0.0,
)

_T = TypeVar("_T")


def finish(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """The outcome of a coroutine that only gives way, as those of the embedded tree."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]


class InlineExecutor(Executor):
    """Does everything at once, so that a seed decides all."""

    def __init__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args, **named))
        except Exception as error:
            future.set_exception(error)
        return future


class CrashStorage:
    """Opens at once; `close` is the clean stop."""

    def __init__(
        self,
        disk: FileSystem,
        time: VirtualTime,
        settings: Mapping[str, TopicConfig] = MappingProxyType({}),
    ) -> None:
        """`settings` of topics, as the tree has them by now; those of others are as made."""
        self.logs = LogManager(
            LogDirectories.lock(disk, LOG_DIRS, LOG_DIRS[0]),
            LogConfig,
            lambda name: settings.get(name, TOPIC_CONFIG),
            disk,
            time,
        )
        tree_files = TreeDirectory(disk, LOG_DIRS[0])
        tree_files.on_failure = partial(self.logs.fail_directory, LOG_DIRS[0])
        self.tree = EmbeddedTree(time, tree_files)
        self.zk = ZkUtils(self.tree.session(), time)
        finish(self.zk.create_persistent_paths())
        _, self._epoch_version = finish(self.zk.controller_epoch())
        with patch.object(log_opening, "ThreadPoolExecutor", InlineExecutor):
            self.recovered = self.logs.load("cluster", BROKER_ID, None, self.topics().__contains__)

    def close(self) -> None:
        self.logs.shutdown()
        self.tree.close()

    # What the controller does to the tree

    def topics(self) -> dict[str, TopicAssignment]:
        found = {}
        for name in finish(self.zk.topics()):
            assignment = finish(self.zk.topic_assignment(name))
            assert assignment is not None, name
            found[name] = assignment
        return found

    def topics_to_delete(self) -> list[str]:
        return finish(self.zk.topic_deletions())

    def create_topic(self, name: str, topic_id: UUID, partitions: int) -> None:
        assignment = TopicAssignment(
            topic_id=topic_id,
            partitions={p: ReplicaAssignment(replicas=(BROKER_ID,)) for p in range(partitions)},
        )
        finish(create_topic(self.zk, name, assignment))

    def mark_for_deletion(self, name: str) -> None:
        if not finish(self.zk.is_marked_for_deletion(name)):
            finish(self.zk.create_delete_topics([name]))

    def remove_topic(self, name: str) -> None:
        found = self.topics().get(name)
        partitions = found.partitions if found is not None else {}
        finish(self.zk.delete_topics({name: partitions}, self._epoch_version))

    def next_leader_epoch(self, name: str, partition: int) -> int:
        """Elect this broker again: the new epoch, in the tree."""
        path = zk_paths.partition_state_path(name, partition)
        tree = self.zk.tree
        epoch = 0
        if finish(tree.exists(path)) is None:
            finish(tree.create(path, None, make_parents=True))
        else:
            data, stat = finish(tree.get(path))
            if data is not None:
                state = zk_paths.decode_partition_state(path, data, stat.version)
                epoch = state.leader_and_isr.leader_epoch + 1
        state = LeaderAndIsr(
            leader=BROKER_ID, leader_epoch=epoch, isr=(BROKER_ID,), partition_epoch=0
        )
        finish(tree.set(path, zk_paths.encode_partition_state(state, 1)))
        return epoch
