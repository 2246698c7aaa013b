"""The controller changes some partitions of a topic while others change the rest."""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ReplicaAssignment
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.zk_paths import TopicAssignment
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock
from tests.fakes.trees.topic_nodes import create_topic


def assignment(*replicas: tuple[int, ...]) -> TopicAssignment:
    partitions = {n: ReplicaAssignment(replicas=r) for n, r in enumerate(replicas)}
    return TopicAssignment(topic_id=UUID(int=7), partitions=partitions)


class GrowingTree:
    """A session over a tree in which the topic grows between a look and the next write."""

    def __init__(self, session: object, grown: TopicAssignment) -> None:
        self._session = session
        self._grown: TopicAssignment | None = grown

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    async def get(self, path: str, watch: object = None) -> object:
        found = await self._session.get(path, watch)  # type: ignore[attr-defined]
        if self._grown is not None and path == zk_paths.topic_path("t"):
            grown, self._grown = self._grown, None
            await self._session.set(path, zk_paths.encode_topic(grown))  # type: ignore[attr-defined]
        return found


async def test_a_partition_that_was_added_meanwhile_stays() -> None:
    session = EmbeddedTree(FixedClock()).session()
    zk = ZkUtils(session, FixedClock())
    await zk.create_persistent_paths()
    await create_topic(zk, "t", assignment((1,)))
    _, epoch_version = await zk.controller_epoch()
    racing = ZkUtils(GrowingTree(session, assignment((1,), (2,))), FixedClock())  # type: ignore[arg-type]

    await racing.change_topic_assignment("t", {0: ReplicaAssignment(replicas=(3,))}, epoch_version)

    assert await zk.topic_assignment("t") == assignment((3,), (2,))
