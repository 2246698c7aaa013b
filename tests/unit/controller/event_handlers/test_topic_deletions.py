"""Many topics are deleted at once: what that takes of the tree and of the brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import pytest

from kbroker.controller.event_handlers.state_changes import StateChanges
from kbroker.controller.event_handlers.topic_deletions import TopicDeletions
from kbroker.controller.state_machines.controller_context import ControllerContext, ReplicaState
from kbroker.controller.state_machines.events import TopicDeletionStopReplicaResponseReceived
from kbroker.model import Broker, EndPoint, ReplicaAssignment
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.zk.topic_nodes import NewTopicNodes
from kbroker.zk.tree import Op
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.clusters.controller_cluster import ControllerCluster, running
from tests.fakes.running.loop_turns import counting_turns

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


async def test_an_answer_about_thousands_of_replicas_is_worked_in_turns() -> None:
    context = ControllerContext()
    end_point = EndPoint(listener_name="PLAINTEXT", host="h", port=9092)
    context.live_brokers[0] = Broker(broker_id=0, end_points=(end_point,), epoch=1)
    partitions = {number: ReplicaAssignment(replicas=(0, 1)) for number in range(10)}
    for number in range(300):
        topic = TopicAssignment(topic_id=UUID(int=7 + number), partitions=partitions)
        context.set_assignment(f"t{number}", topic)
    for replica in context.all_replicas():
        context.replica_states[replica] = ReplicaState.DELETION_STARTED
    context.topics_to_delete.update(context.assignments)
    nobody: Any = None
    states = StateChanges(context, nobody, nobody, broker_id=0, unclean_by_default=lambda: False)
    deleted = frozenset(context.all_partitions())
    answer = TopicDeletionStopReplicaResponseReceived(0, 1, deleted, frozenset())

    deletions = TopicDeletions(states, nobody, enabled=True)
    _, turns = await counting_turns(deletions.on_answer(answer))

    # 1,024 replicas at a time, and then 64 topics.
    assert turns >= 3_000 // 1_024 + 300 // 64
    gone = [r for r, s in context.replica_states.items() if s is ReplicaState.DELETION_SUCCESSFUL]
    assert len(gone) == 3_000
