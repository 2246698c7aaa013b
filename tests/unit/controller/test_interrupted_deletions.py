"""Deletions that a controller has begun are ended by the next one, and by itself after it has read
the cluster anew.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from kbroker.controller.state_machines import events
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.zk import zk_paths
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.clusters.controller_cluster import ControllerCluster

T0 = TopicPartition("t", 0)


@pytest.fixture
def brokers() -> int:
    return 3


async def create(cluster: ControllerCluster, *replicas: int) -> None:
    assignment = TopicAssignment(
        topic_id=UUID(int=7), partitions={0: ReplicaAssignment(replicas=replicas)}
    )
    path, data = zk_paths.topic_path("t"), zk_paths.encode_topic(assignment)
    await cluster.brokers[0].session.create(path, data)
    await cluster.settle()


async def mark(cluster: ControllerCluster) -> None:
    await cluster.brokers[1].session.create(zk_paths.delete_topic_path("t"))
    await cluster.settle()


async def test_a_topic_half_removed_by_the_last_controller_is_not_led_once_more(
    cluster: ControllerCluster,
) -> None:
    await create(cluster, 1)
    cluster.brokers[0].kill()  # nobody acts until its end is seen
    session = cluster.brokers[1].session
    await session.create(zk_paths.delete_topic_path("t"))
    state = zk_paths.partition_state_path("t", 0)
    for path in (state, state.removesuffix("/state"), zk_paths.partitions_path("t")):
        await session.delete(path)
    cluster.told.clear()

    await cluster.settle()

    assert not [line for line in cluster.told if line.startswith("broker 1 <- LeaderAndIsr t")]
    assert await session.exists(zk_paths.topic_path("t")) is None


async def test_an_answer_from_before_the_cluster_was_read_anew_ends_no_deletion(
    cluster: ControllerCluster,
) -> None:
    await create(cluster, 1)
    cluster.brokers[1].is_reachable = False
    await mark(cluster)
    controller = cluster.brokers[0].controller
    epoch = cluster.brokers[1].broker_epoch
    controller.read_anew()

    controller.queue.put(
        events.TopicDeletionStopReplicaResponseReceived(1, epoch, frozenset({T0}), frozenset())
    )
    await cluster.settle()

    assert await cluster.brokers[1].session.exists(zk_paths.topic_path("t")) is not None
