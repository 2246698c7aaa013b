from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.api_context import ApiCaller
from tests.fakes.replication_cluster import ReplicationCluster


@pytest.fixture
def cluster() -> Iterator[ReplicationCluster]:
    cluster = ReplicationCluster()
    yield cluster
    cluster.close()


@pytest.fixture
def call(cluster) -> ApiCaller:
    return ApiCaller(cluster)
