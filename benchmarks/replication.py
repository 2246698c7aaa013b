"""Three brokers over one ZooKeeper server, and every partition on all three of them: what acks=all
costs, how fast a broker that was away catches up, and what many such partitions cost at rest and
when their controller or a leader goes.

Apache Kafka is 3.9.2 here, with the heap and the collector of its own start scripts. CPU is user and
system time of all broker processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import cluster as clusters
from benchmarks import raw_client
from benchmarks.cluster import RunningCluster, create, led_among, led_by, led_partitions, wait_for
from benchmarks.generator import deliver
from benchmarks.loads import Figures, producer_performance
from benchmarks.request_kinds import delivery_at
from compat_tests.cluster.processes import until
from kbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse

Row = tuple[str, Callable[[RunningCluster], Figures]]

REPLICAS = 3
PARTITIONS = 3_000
RECORD_BYTES = 1_000
IDLE_S = 15.0
_RECORDS = 1_000_000
_WARM_UP_RECORDS = 500_000  # twice
_WARM_UP_S = 30  # at most
_WARM_UP_LATENCIES, _LATENCIES, _PER_S = 20_000, 5_000, 1_000
_TOPICS = 10  # that many partitions are shared out over
_TIMEOUT_S = 600
_NOT_CONTROLLER = 41
# Tests start their brokers with what makes a short run cheap.
_AS_ITS_SCRIPTS = (
    "-XX:TieredStopAtLevel=4", "-Xms1g", "-Xmx1g",
    "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
)  # fmt: skip


def running(kind: str) -> AbstractContextManager[RunningCluster]:
    """A new cluster of `kbroker` or `apache` brokers."""
    return clusters.running(kind, _AS_ITS_SCRIPTS)


def loads(partitions: int = PARTITIONS, gigabytes: float = 1.0) -> Sequence[Row]:
    """The loads, in the order in which they have to run; the last one kills a broker."""
    return [
        ("replicas: java producer, 1 KB, acks=all", produce),
        ("replicas: end to end, acks=all", latency),
        (f"replicas: catching up with {gigabytes:g} GB", partial(catch_up, gigabytes)),
        (f"replicas: {partitions:,} partitions, idle", partial(idle, partitions)),
        (f"replicas: {partitions:,} partitions, controller", start_of_controller),
        (f"replicas: {partitions:,} partitions, failover", failover),
    ]


def produce(cluster: RunningCluster) -> Figures:
    """Kafka's ProducerPerformance with acks=all, over one partition per broker."""
    _create(cluster, {"perf": len(cluster.brokers.ids)})
    bootstrap = cluster.brokers.bootstrap
    for _ in range(2):
        producer_performance(bootstrap, "perf", _WARM_UP_RECORDS, RECORD_BYTES)
    cpu = cluster.cpu_s()
    rate = producer_performance(bootstrap, "perf", _RECORDS, RECORD_BYTES)
    return {
        "cpu_us_per_record": (cluster.cpu_s() - cpu) / _RECORDS * 1e6,
        "records_per_s": rate,
    }


def latency(cluster: RunningCluster) -> Figures:
    """From a Produce until a consumer has a record that all replicas have stored."""
    _create(cluster, {"latency": 1})
    state: Any = cluster.brokers.tree.partition_state("latency", 0)
    leader = cluster.address(state.leader)
    deliver(
        leader, delivery_at(leader, "latency", 100, acks=-1), _WARM_UP_LATENCIES, seconds=_WARM_UP_S
    )
    took = deliver(
        leader, delivery_at(leader, "latency", 100, acks=-1), _LATENCIES, cluster.pids(), _PER_S
    )
    return {
        "cpu_us_per_record": took.cpu_us, "p50_ms": took.p50_ns / 1e6, "p99_ms": took.p99_ns / 1e6,
    }  # fmt: skip


def catch_up(gigabytes: float, cluster: RunningCluster) -> Figures:
    """A broker is away while two others take records; from the first byte that it fetches after
    its return until it is in sync.
    """
    brokers = cluster.brokers
    _create(cluster, {"missed": len(brokers.ids)})
    away = next(number for number in brokers.ids if number != brokers.controller_id())
    brokers.stop(away)
    others = ",".join(brokers.address(number) for number in brokers.ids if number != away)
    records = int(gigabytes * 1e9 / RECORD_BYTES)
    producer_performance(others, "missed", records, RECORD_BYTES)
    data = brokers.brokers[away].data
    before = _log_bytes(data, "missed")
    brokers.start(away)
    until(lambda: _log_bytes(data, "missed") > before, "the first byte", _TIMEOUT_S)
    before, cpu, begun = _log_bytes(data, "missed"), cluster.cpu_s(), time.perf_counter()
    until(lambda: _is_in_sync(cluster, "missed"), "all are in sync", _TIMEOUT_S)
    elapsed, cpu = time.perf_counter() - begun, cluster.cpu_s() - cpu
    megabytes = (_log_bytes(data, "missed") - before) / 1e6
    return {"mb_per_s": megabytes / elapsed, "cpu_ms_per_mb": cpu / megabytes * 1000}


def idle(partitions: int, cluster: RunningCluster) -> Figures:
    """Many partitions are created, and then nothing happens to them."""
    before, cpu, begun = cluster.rss_mib(), cluster.cpu_s(), time.perf_counter()
    share = -(-partitions // _TOPICS)
    _create(cluster, {f"wide-{number}": share for number in range(_TOPICS)})
    created = time.perf_counter() - begun
    time.sleep(5)
    cpu_creating, more = cluster.cpu_s() - cpu, cluster.rss_mib() - before
    cpu, begun = cluster.cpu_s(), time.perf_counter()
    time.sleep(IDLE_S)
    return {
        "create_s": created,
        "create_cpu_s": cpu_creating,
        "more_mib_per_broker": more,
        "mib_per_broker": cluster.rss_mib(),
        "idle_cpu_ms_per_s": (cluster.cpu_s() - cpu) / (time.perf_counter() - begun) * 1000,
    }


def start_of_controller(cluster: RunningCluster) -> Figures:
    """The controller's node goes: until another one has read all and has created a topic."""
    tree = cluster.brokers.tree
    epoch, cpu, begun = tree.controller_epoch(), cluster.cpu_s(), time.perf_counter()
    tree.delete("/controller")
    until(lambda: tree.controller_epoch() > epoch, "another controller", _TIMEOUT_S)
    until(lambda: _has_created(cluster, "by-the-new"), "a topic is created", _TIMEOUT_S)
    return {
        "until_it_creates_s": time.perf_counter() - begun,
        "cpu_s_of_3_brokers": cluster.cpu_s() - cpu,
    }


def failover(cluster: RunningCluster) -> Figures:
    """Kill -9 of the controller, which leads a third: from the end of its session until both others
    tell clients of a leader that lives, for every partition; run it last.
    """
    brokers = cluster.brokers
    dead = brokers.controller_id()
    cluster_cpu = cluster.cpu_s() - cluster.cpu_s_of(dead)
    brokers.kill(dead)
    until(lambda: dead not in brokers.tree.broker_ids(), "the session ends", _TIMEOUT_S)
    begun = time.perf_counter()
    for number in brokers.ids:
        if number != dead:
            wait_for(cluster, number, partial(_all_led_by_others, dead))
    return {
        "session_end_to_all_led_s": time.perf_counter() - begun,
        "cpu_s_of_2_brokers": cluster.cpu_s() - cluster_cpu,
    }


def _all_led_by_others(dead: int, topics: list[Any]) -> bool:
    """The topic that has warmed all brokers has one replica, and its leader stays away."""
    replicated = [topic for topic in topics if len(topic.partitions[0].replica_nodes) == REPLICAS]
    count = sum(len(topic.partitions) for topic in replicated)
    return led_partitions(replicated) == count and led_by(replicated, dead) == 0


def _create(cluster: RunningCluster, topics: dict[str, int]) -> None:
    """Create topics, one after the other so that none takes a request's whole time, and wait until
    all brokers lead clients to them and all replicas are in sync.
    """
    for name, partitions in topics.items():
        create(cluster, cluster.brokers.controller_id(), {name: partitions}, REPLICAS)
    wanted = sum(topics.values())
    for number in cluster.brokers.ids:
        wait_for(cluster, number, lambda told: led_among(told, topics) == wanted)
    for name in topics:
        until(partial(_is_in_sync, cluster, name), f"{name} is in sync", _TIMEOUT_S)


def _is_in_sync(cluster: RunningCluster, topic: str) -> bool:
    """Whether brokers tell clients that all replicas of a topic are in sync."""
    client = raw_client.RawClient(cluster.address(cluster.brokers.controller_id()))
    wanted = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    answer: Any = client.call(wanted, 3, 9, MetadataResponse)
    client.close()
    found = answer.topics[0].partitions
    return bool(found) and all(len(each.isr_nodes) == REPLICAS for each in found)


def _has_created(cluster: RunningCluster, topic: str) -> bool:
    controller = cluster.brokers.controller_id()
    with suppress(OSError):
        client = raw_client.RawClient(cluster.address(controller))
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=topic, num_partitions=1, replication_factor=REPLICAS
                )
            ],
            timeout_ms=60_000,
        )
        answer: Any = client.call(request, 19, 5, CreateTopicsResponse)
        client.close()
        code = answer.topics[0].error_code
        if code not in (0, _NOT_CONTROLLER):
            raise RuntimeError(f"create answered error {code}")
        return bool(code == 0)
    return False


def _log_bytes(data: Path, topic: str) -> int:
    """Bytes of a topic's segments in a data directory; a segment may go while it is looked at."""
    total = 0
    for file in data.glob(f"{topic}-*/*.log"):
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total
