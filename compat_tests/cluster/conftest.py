"""What cluster tests get: three brokers over one ZooKeeper, of kbroker or (`--target kafka`) Apache
Kafka 3.9.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from compat_tests.cluster.processes import Cluster
from compat_tests.running.shared_zookeeper import shared_zookeeper
from compat_tests.running.zookeeper_servers import ZooKeeperServers

T = TypeVar("T")
KINDS = {"kbroker": "kbroker", "kafka": "apache"}


@pytest.fixture(scope="session")
def kind(target: str) -> str:
    """Which broker the cluster is made of."""
    if target not in KINDS:
        pytest.skip("starts clusters of its own")
    return KINDS[target]


@pytest.fixture(scope="session")
def either(kind: str) -> Callable[[T, T], T]:
    """`either(kbroker's answer, Apache Kafka 3.9.2's answer)` where the two differ."""
    return lambda kbroker, kafka: kafka if kind == "apache" else kbroker


@pytest.fixture(scope="session")
def zookeeper() -> ZooKeeperServers:
    """A ZooKeeper server for the whole run; every cluster takes a chroot of its own."""
    return shared_zookeeper()


@pytest.fixture(scope="session")
def shared_cluster(
    kind: str, zookeeper: ZooKeeperServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three brokers for the whole run; tests take `cluster`."""
    folder = tmp_path_factory.mktemp("cluster")
    with Cluster(folder, zookeeper, [kind] * 3, chroot="/shared") as cluster:
        cluster.start()
        yield cluster
        for broker in cluster.brokers.values():
            assert kind == "apache" or "Traceback" not in broker.log_text()


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """Three brokers, all registered, one of them controller. A test may stop and kill them."""
    shared_cluster.heal()
    return shared_cluster
