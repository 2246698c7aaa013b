from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kbroker.errors import ErrorCode
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.protocol.header import decode_request_header
from kbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.clusters.forwarding_cluster import ForwardingCluster
from tests.fakes.trees.topic_nodes import create_topic

VERSIONS = range(4)
STOPPING, REPLICAS = 1, (1, 2)
pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def cluster(forwarding_cluster: ForwardingCluster) -> ForwardingCluster:
    """Three brokers, 0 is controller, 1 leads a partition that 2 follows and one of its own."""
    partitions = {
        0: ReplicaAssignment(replicas=REPLICAS),
        1: ReplicaAssignment(replicas=REPLICAS[:1]),
    }
    topic = TopicAssignment(topic_id=UUID(int=7), partitions=partitions)
    await create_topic(forwarding_cluster.controller.zk, "t", topic)
    await forwarding_cluster.settle()
    assert leader_of(forwarding_cluster, 0) == STOPPING
    return forwarding_cluster


def leader_of(cluster: ForwardingCluster, partition: int) -> int:
    context = cluster.controller.controller.context
    assert context is not None
    return context.leadership[TopicPartition("t", partition)].leader_and_isr.leader


def stop(broker_id: int = STOPPING, epoch: int = -1) -> Any:
    return ControlledShutdownRequest(broker_id=broker_id, broker_epoch=epoch)


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_others_can_lead_is_led_by_them(
    version: int, cluster: ForwardingCluster
) -> None:
    request = stop(epoch=cluster.broker(STOPPING).broker_epoch)

    answer = await cluster.broker(0).ask(request, version)

    assert (answer.error_code, answer.remaining_partitions) == (ErrorCode.NONE, [])
    assert (leader_of(cluster, 0), leader_of(cluster, 1)) == (2, STOPPING)


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_nobody_in_sync_can_lead_is_named(
    version: int, cluster: ForwardingCluster
) -> None:
    cluster.brokers[2].kill()
    await cluster.settle()

    answer = await cluster.broker(0).ask(stop(), version)

    named = [(p.topic_name, p.partition_index) for p in answer.remaining_partitions]
    assert (answer.error_code, named) == (ErrorCode.NONE, [("t", 0)])


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_broker_that_is_not_controller_answers_as_kafkas_do(
    version: int, cluster: ForwardingCluster
) -> None:
    answer = await cluster.broker(2).ask(stop(), version)

    assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert leader_of(cluster, 0) == STOPPING


async def test_an_earlier_life_of_a_broker_does_not_stop_the_present_one(
    cluster: ForwardingCluster,
) -> None:
    epoch = cluster.broker(STOPPING).broker_epoch

    answer = await cluster.broker(0).ask(stop(epoch=epoch - 1), 3)

    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert leader_of(cluster, 0) == STOPPING


@pytest.mark.parametrize("broker_id", [77, -1, -(2**31), 2**31 - 1])
async def test_a_broker_that_is_not_registered_is_unknown(
    broker_id: int, cluster: ForwardingCluster
) -> None:
    answer = await cluster.broker(0).ask(stop(broker_id), 3)

    assert answer.error_code == ErrorCode.BROKER_NOT_AVAILABLE


def test_the_oldest_request_has_a_header_without_client_id() -> None:
    frame = bytes.fromhex("000700000000002a00000001")

    header, offset = decode_request_header(frame)

    assert (header, offset) == ((7, 0, 42, None), 8)
