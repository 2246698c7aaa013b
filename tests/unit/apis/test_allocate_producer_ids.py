from __future__ import annotations

from typing import Any

import pytest

from kbroker.errors import ErrorCode
from kbroker.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tests.fakes.clusters.forwarding_cluster import ForwardingCluster

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def cluster(forwarding_cluster: ForwardingCluster) -> ForwardingCluster:
    return forwarding_cluster


def allocate(broker_id: int, epoch: int) -> Any:
    return AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)


async def test_each_request_gets_a_block_of_its_own(cluster: ForwardingCluster) -> None:
    asked = [allocate(b.broker_id, b.broker_epoch) for b in cluster.brokers.values()] * 2

    answers = [await cluster.broker(0).ask(request, 0) for request in asked]

    assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * 6
    assert [a.producer_id_start for a in answers] == [n * 1000 for n in range(6)]
    assert {answer.producer_id_len for answer in answers} == {1000}


async def test_a_broker_that_takes_ids_itself_never_gets_those_of_a_block(
    cluster: ForwardingCluster,
) -> None:
    controller, other = cluster.broker(0), cluster.broker(1)
    own = await controller.services.producer_ids.generate()
    answer = await controller.ask(allocate(1, other.broker_epoch), 0)

    assert (own, answer.producer_id_start) == (0, 1000)
    assert await other.services.producer_ids.generate() == 2000


async def test_a_broker_that_is_not_controller_says_so(cluster: ForwardingCluster) -> None:
    other = cluster.broker(1)
    answer = await other.ask(allocate(1, other.broker_epoch), 0)

    assert answer.error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("offset", [-1, 1])
async def test_only_the_present_registration_of_a_broker_gets_ids(
    offset: int, cluster: ForwardingCluster
) -> None:
    epoch = cluster.broker(1).broker_epoch
    answer = await cluster.broker(0).ask(allocate(1, epoch + offset), 0)

    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("broker_id", [77, -1])
async def test_a_broker_that_is_not_registered_gets_none(
    broker_id: int, cluster: ForwardingCluster
) -> None:
    answer = await cluster.broker(0).ask(allocate(broker_id, 5), 0)

    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
