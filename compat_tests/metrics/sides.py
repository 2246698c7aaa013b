"""Two clusters of two brokers each over one ZooKeeper, with the address of each one's metrics:
Apache Kafka 3.9.2 with Prometheus' jmx_exporter in it, and kbroker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from compat_tests.cluster.processes import Cluster
from compat_tests.metrics.exporter_rules import configuration
from compat_tests.metrics.pages import Page, fetched
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.apache_kafka import free_port
from compat_tests.running.prerequisites import maven_jars
from compat_tests.running.zookeeper_servers import ZooKeeperServers

APACHE, KBROKER = "apache", "kbroker"
EXPORTER = "1.0.1"
_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "default.replication.factor": "2",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": "20000",  # starts take long beside other work
}


class Side:
    """A cluster, and where its brokers show their metrics."""

    def __init__(self, cluster: Cluster, addresses: Mapping[int, str]) -> None:
        self.cluster = cluster
        self.addresses = addresses

    def page(self, path: str = "/metrics") -> Page:
        """The pages of all brokers as one."""
        return Page(fetched(address, path) for address in self.addresses.values())


def exporter_jar() -> Path:
    """The agent's jar, fetched on first use. Raises NotAvailableError."""
    folder = maven_jars(
        f"jmx-exporter-{EXPORTER}", f"io.prometheus.jmx:jmx_prometheus_javaagent:{EXPORTER}"
    )
    return next(folder.glob("jmx_prometheus_javaagent-*.jar"))


@contextmanager
def running(root: Path, zookeeper: ZooKeeperServers, kind: str, count: int = 2) -> Iterator[Side]:
    """A cluster of `kind` that serves clients and metrics."""
    with Cluster(root / kind, zookeeper, [kind] * count, _SETTINGS, f"/metrics-{kind}") as cluster:
        addresses = {number: f"127.0.0.1:{free_port()}" for number in cluster.ids}
        for number, address in addresses.items():
            broker = cluster.brokers[number]
            if isinstance(broker, ApacheBroker):
                rules = root / "rules.yml"
                rules.write_text(configuration())
                agent = f"-javaagent:{exporter_jar()}={address}:{rules}"
                broker.java_options += (agent,)
            else:
                cluster.set_up(number, kbroker_http_listeners=address)
        cluster.start()
        yield Side(cluster, addresses)
