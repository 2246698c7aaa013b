from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.clusters.replication_cluster import ReplicationCluster


@pytest.fixture
def cluster() -> Iterator[ReplicationCluster]:
    cluster = ReplicationCluster()
    yield cluster
    cluster.close()
