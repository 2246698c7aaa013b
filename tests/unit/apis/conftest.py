"""What requests are asked of: handlers over replicas, over a controller, or among three brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from kbroker.apis import large_answers
from kbroker.config.kafka_config import KafkaConfig
from tests.fakes.clusters.controller_cluster import ControllerCluster, running
from tests.fakes.clusters.forwarding_cluster import ForwardingCluster
from tests.fakes.clusters.replication_cluster import ReplicationCluster
from tests.fakes.requests.admin_context import AdminClient
from tests.fakes.requests.api_context import ApiCaller


@pytest.fixture(params=[large_answers.SMALL_BYTES, -1], ids=["at once", "in parts"])
def small_or_large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer as it is made when it is small, and as when it is large."""
    monkeypatch.setattr(large_answers, "SMALL_BYTES", request.param)


@pytest.fixture
def cluster() -> Iterator[ReplicationCluster]:
    cluster = ReplicationCluster()
    yield cluster
    cluster.close()


@pytest.fixture
def call(cluster) -> ApiCaller:
    return ApiCaller(cluster)


@pytest.fixture
async def client(brokers: int, config: KafkaConfig | None) -> AsyncIterator[AdminClient]:
    """Of the first broker, which is controller."""
    async with running(ControllerCluster(config), brokers=brokers) as cluster:
        yield AdminClient(cluster.brokers[0])


@pytest.fixture
async def forwarding_cluster() -> AsyncIterator[ForwardingCluster]:
    """Three brokers; the first is controller."""
    async with running(ForwardingCluster(), brokers=3) as cluster:
        yield cluster
