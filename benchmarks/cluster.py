"""Three brokers over one ZooKeeper server: topics, metadata, failover of the controller, and what an
idle cluster says to ZooKeeper.

Apache Kafka is 3.9.2 here, the last line with ZooKeeper mode. Both get the same settings.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import raw_client
from benchmarks.loads import Figures
from benchmarks.processes import cpu_s_of, rss_mib_of
from compat_tests.cluster.processes import SESSION_TIMEOUT_MS, Cluster, until
from compat_tests.running.zookeeper_servers import ZooKeeperServers, zookeeper_servers
from kbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse

BROKERS = 3
TOPICS = 1_000
FAILOVER_PARTITIONS = 5_000
METADATA_REQUESTS = 50
IDLE_S = 15.0
_PATIENCE_S = 600.0  # of those who wait for metadata: 10,000 partitions take long to elect


@dataclass(frozen=True)
class RunningCluster:
    """Brokers that serve, and their ZooKeeper."""

    brokers: Cluster
    zookeeper: ZooKeeperServers

    def address(self, broker_id: int) -> tuple[str, int]:
        """Host and port of a broker."""
        host, _, port = self.brokers.address(broker_id).rpartition(":")
        return host, int(port)

    def cpu_s(self) -> float:
        """User and system time of all broker processes so far, in seconds."""
        return sum(map(cpu_s_of, self.pids()))

    def pids(self) -> list[int]:
        """Process ids of all brokers that run."""
        return [broker.process.pid for broker in self._running()]

    def cpu_s_of(self, broker_id: int) -> float:
        """That of one broker."""
        process: Any = self.brokers.brokers[broker_id].process
        return cpu_s_of(process.pid)

    def rss_mib(self) -> float:
        """Resident memory of a broker process, the mean of all that run, in MiB."""
        each = [rss_mib_of(broker.process.pid) for broker in self._running()]
        return statistics.mean(each)

    def _running(self) -> list[Any]:
        cluster = self.brokers
        return [cluster.brokers[number] for number in cluster.ids if cluster.is_running(number)]

    def packets_to_zookeeper(self) -> int:
        """How many packets the server has got from its clients so far."""
        text = self.zookeeper.server.command("mntr")
        line = next(line for line in text.splitlines() if line.startswith("zk_packets_received"))
        return int(line.split()[1])


@contextmanager
def running(kind: str, java_options: Sequence[str] = ()) -> Iterator[RunningCluster]:
    """A new cluster of `kbroker` or `apache` brokers, the latter with these options of Java."""
    directory = Path(tempfile.mkdtemp(prefix=f"{kind}-cluster-"))
    try:
        with (
            zookeeper_servers() as servers,
            Cluster(directory, servers, [kind] * BROKERS, java_options=java_options) as brokers,
        ):
            brokers.start()
            yield RunningCluster(brokers, servers)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def idle_traffic(cluster: RunningCluster) -> Figures:
    """Measure what three brokers that do nothing send to ZooKeeper, and burn."""
    time.sleep(2)
    packets, cpu, begun = cluster.packets_to_zookeeper(), cluster.cpu_s(), time.perf_counter()
    time.sleep(IDLE_S)
    elapsed = time.perf_counter() - begun
    return {
        "packets_to_zookeeper_per_s": (cluster.packets_to_zookeeper() - packets) / elapsed,
        "cpu_ms_per_s_of_3_brokers": (cluster.cpu_s() - cpu) / elapsed * 1000,
    }


def create_topics(cluster: RunningCluster) -> Figures:
    """1,000 topics with one partition in one request, until all brokers can lead clients to them."""
    controller = cluster.brokers.controller_id()
    cpu, begun = cluster.cpu_s(), time.perf_counter()
    names = {f"topic-{number:04d}": 1 for number in range(TOPICS)}
    create(cluster, controller, names)
    answered = time.perf_counter() - begun
    for number in cluster.brokers.ids:
        wait_for(cluster, number, lambda told: led_among(told, names) == TOPICS)
    return {
        "create_1000_topics_s": answered,
        "until_all_brokers_know_s": time.perf_counter() - begun,
        "cpu_s_of_3_brokers": cluster.cpu_s() - cpu,
    }


def metadata(cluster: RunningCluster) -> Figures:
    """Metadata of 1,000 topics, asked again and again of a broker that is not controller."""
    controller = cluster.brokers.controller_id()
    asked = next(number for number in cluster.brokers.ids if number != controller)
    client = raw_client.RawClient(cluster.address(asked))
    frame = raw_client.frame_of(MetadataRequest(topics=None), 3, 9)
    times = []
    cpu = cluster.cpu_s()
    for _ in range(METADATA_REQUESTS):
        begun = time.perf_counter()
        client.send(frame)
        client.receive()
        times.append((time.perf_counter() - begun) * 1000)
    client.close()
    return {
        "metadata_1000_topics_p50_ms": statistics.median(times),
        "cpu_ms_per_request": (cluster.cpu_s() - cpu) / METADATA_REQUESTS * 1000,
    }


def failover(cluster: RunningCluster) -> Figures:
    """Measure what follows kill -9 of the controller of 5,000 more partitions: from the end of its
    session until both other brokers tell clients that it is gone; run it last.
    """
    brokers = cluster.brokers
    controller = brokers.controller_id()
    create(cluster, controller, {f"wide-{n}": FAILOVER_PARTITIONS // 10 for n in range(10)})
    wanted = FAILOVER_PARTITIONS + TOPICS
    for number in brokers.ids:
        wait_for(cluster, number, lambda topics: led_partitions(topics) >= wanted)
    epoch = brokers.tree.controller_epoch()
    cpu, killed = cluster.cpu_s() - cluster.cpu_s_of(controller), time.perf_counter()
    brokers.kill(controller)
    until(lambda: controller not in brokers.tree.broker_ids(), "the session ends", 60)
    session_over = time.perf_counter()
    until(lambda: brokers.tree.controller_epoch() > epoch, "another controller", 60)
    elected = time.perf_counter()
    for number in brokers.ids:
        if number != controller:
            wait_for(cluster, number, lambda topics: led_by(topics, controller) == 0)
    done = time.perf_counter()
    return {
        "kill_to_session_end_s": session_over - killed,
        "session_end_to_elected_s": elected - session_over,
        "session_end_to_metadata_right_s": done - session_over,
        "cpu_s_of_2_brokers": cluster.cpu_s() - cpu,
    }


LOADS: list[tuple[str, Callable[[RunningCluster], Figures]]] = [
    ("idle cluster of 3 brokers", idle_traffic),
    ("cluster: creating 1,000 topics", create_topics),
    ("cluster: metadata of 1,000 topics", metadata),
    (f"cluster: failover, 5,000 partitions, session {SESSION_TIMEOUT_MS} ms", failover),
]


def create(
    cluster: RunningCluster, controller: int, topics: dict[str, int], replicas: int = 1
) -> None:
    """Ask the controller for topics with so many partitions each; RuntimeError where it refuses."""
    client = raw_client.RawClient(cluster.address(controller))
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=name, num_partitions=partitions, replication_factor=replicas
            )
            for name, partitions in topics.items()
        ],
        timeout_ms=60_000,
    )
    answer: Any = client.call(request, 19, 5, CreateTopicsResponse)
    client.close()
    codes = {topic.error_code for topic in answer.topics}
    if codes != {0}:
        raise RuntimeError(f"create answered {codes}")


def wait_for(
    cluster: RunningCluster, broker_id: int, is_right: Callable[[list[Any]], bool]
) -> None:
    """Return when what a broker tells clients of all topics is right."""
    client = raw_client.RawClient(cluster.address(broker_id))
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        answer: Any = client.call(MetadataRequest(topics=None), 3, 9, MetadataResponse)
        if is_right(answer.topics):
            break
        if time.monotonic() > deadline:
            raise RuntimeError(f"broker {broker_id} does not hear of it")
        time.sleep(0.02)
    client.close()


def led_partitions(topics: list[Any]) -> int:
    """How many partitions have a leader that clients see."""
    return sum(
        partition.leader_id >= 0 and partition.error_code == 0
        for topic in topics
        for partition in topic.partitions
    )


def led_among(topics: list[Any], names: Container[str]) -> int:
    """How many partitions of the topics with these names have one."""
    return led_partitions([topic for topic in topics if topic.name in names])


def led_by(topics: list[Any], broker_id: int) -> int:
    """How many partitions clients are told to find at that broker."""
    return sum(p.leader_id == broker_id for topic in topics for p in topic.partitions)
