"""A broker that could not be reached, or has registered anew, ends with the same picture as all
others, whatever its earlier life has heard or said.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from kbroker.controller.state_machines import events
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.replication.metadata_cache import FULL_UPDATE
from kbroker.zk import zk_paths
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.clusters.controller_cluster import ControllerCluster
from tests.fakes.clusters.replication_cluster import partition_metadata, update_metadata

T0 = TopicPartition("t", 0)


@pytest.fixture
def brokers() -> int:
    return 3


async def create(cluster: ControllerCluster, name: str, *replicas: int) -> None:
    assignment = TopicAssignment(
        topic_id=UUID(int=len(name)), partitions={0: ReplicaAssignment(replicas=replicas)}
    )
    path, data = zk_paths.topic_path(name), zk_paths.encode_topic(assignment)
    await cluster.brokers[0].session.create(path, data)
    await cluster.settle()


async def delete(cluster: ControllerCluster, name: str) -> None:
    await cluster.brokers[0].session.create(zk_paths.delete_topic_path(name))
    await cluster.settle()


async def test_a_topic_deleted_while_a_broker_was_away_is_gone_for_it_as_well(
    cluster: ControllerCluster,
) -> None:
    await create(cluster, "t", 1)
    away = cluster.brokers[2]
    away.session.expire()
    await cluster.settle()
    await delete(cluster, "t")
    assert away.metadata.contains_topic("t")

    away.session.renew()
    await cluster.settle()

    assert not away.metadata.contains_topic("t")


async def test_a_new_controller_tells_all_brokers_everything(cluster: ControllerCluster) -> None:
    await create(cluster, "t", 1)
    # As if the last controller had ended before it told them of the deletion.
    gone = update_metadata(("gone", partition_metadata()), brokers=(0, 1, 2), epoch=1)
    for broker_id in (1, 2):
        cluster.brokers[broker_id].metadata.update(gone)

    cluster.brokers[0].kill()
    await cluster.settle()

    for broker_id in (1, 2):
        assert cluster.brokers[broker_id].metadata.topics() == ["t"]
    kinds = [r.type for _, r in cluster.requests if isinstance(r, UpdateMetadataRequest)]
    assert FULL_UPDATE in kinds


async def test_an_answer_of_an_earlier_life_ends_no_deletion(cluster: ControllerCluster) -> None:
    await create(cluster, "t", 1)
    cluster.brokers[1].is_reachable = False
    await delete(cluster, "t")
    controller = cluster.brokers[0].controller
    before = cluster.brokers[1].broker_epoch - 1

    controller.queue.put(
        events.TopicDeletionStopReplicaResponseReceived(1, before, frozenset(), frozenset({T0}))
    )
    controller.queue.put(
        events.TopicDeletionStopReplicaResponseReceived(1, before, frozenset({T0}), frozenset())
    )
    await cluster.settle()

    context = controller.context
    assert context is not None
    assert context.topics_to_delete == {"t"}
    assert not context.topics_ineligible_for_deletion


async def test_an_answer_of_an_earlier_life_says_nothing_of_a_disk(
    cluster: ControllerCluster,
) -> None:
    await create(cluster, "t", 1)
    controller = cluster.brokers[0].controller
    before = cluster.brokers[1].broker_epoch - 1

    controller.queue.put(
        events.LeaderAndIsrResponseReceived(1, before, frozenset({T0}), frozenset())
    )
    await cluster.settle()

    context = controller.context
    assert context is not None
    assert context.replicas_on_failed_dirs == set()
