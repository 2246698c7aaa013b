"""Many topics are deleted at once: what that takes of the tree and of the brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import pytest

from kbroker.model import ReplicaAssignment
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.zk.nodes.topic_nodes import NewTopicNodes
from kbroker.zk.tree import Op
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.controller_cluster import ControllerCluster, running

TOPICS = [f"t{number}" for number in range(40)]
PARTITIONS = 5


@pytest.fixture
async def cluster() -> AsyncIterator[ControllerCluster]:
    async with running(ControllerCluster(), brokers=2) as cluster:
        partitions = {
            number: ReplicaAssignment(replicas=(number % 2, 1 - number % 2))
            for number in range(PARTITIONS)
        }
        await cluster.controller.zk.create_topics(
            [
                NewTopicNodes(
                    topic, TopicAssignment(topic_id=UUID(int=7 + number), partitions=partitions), {}
                )
                for number, topic in enumerate(TOPICS)
            ]
        )
        await cluster.settle()
        yield cluster


def counted(monkeypatch: pytest.MonkeyPatch, cluster: ControllerCluster) -> list[int]:
    """The transactions of each row that the controller writes: every row waits for the disk."""
    rows: list[int] = []
    session = cluster.controller.session
    write = session.multi_all

    async def count(transactions: Sequence[Sequence[Op]]) -> Any:
        rows.append(len(transactions))
        return await write(transactions)

    monkeypatch.setattr(session, "multi_all", count)
    return rows


async def test_many_topics_go_with_few_writes_and_few_orders(
    monkeypatch: pytest.MonkeyPatch, cluster: ControllerCluster
) -> None:
    rows = counted(monkeypatch, cluster)
    cluster.requests.clear()

    await cluster.brokers[1].zk.create_delete_topics(TOPICS)
    await cluster.settle()

    assert await cluster.brokers[1].zk.topics() == []
    assert await cluster.brokers[1].zk.topic_deletions() == []
    deletions = [
        request
        for _, request in cluster.requests
        if isinstance(request, StopReplicaRequest)
        and any(s.delete_partition for t in request.topic_states for s in t.partition_states)
    ]
    assert len(deletions) <= 4  # both brokers, one or two rounds of wishes
    assert len(rows) < len(TOPICS) / 2


async def test_topics_whose_replicas_cannot_go_wait_and_the_others_are_gone(
    cluster: ControllerCluster,
) -> None:
    alone = TopicAssignment(topic_id=UUID(int=5), partitions={0: ReplicaAssignment(replicas=(0,))})
    await cluster.controller.zk.create_topics([NewTopicNodes("alone", alone, {})])
    await cluster.settle()
    cluster.brokers[1].kill()
    await cluster.settle()

    await cluster.brokers[0].zk.create_delete_topics(["alone", *TOPICS])
    await cluster.settle()

    assert await cluster.brokers[0].zk.topics() == sorted(TOPICS)
    await cluster.start(1)
    assert await cluster.brokers[0].zk.topics() == []
