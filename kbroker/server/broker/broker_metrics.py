"""Registers the measures that walk through what a broker holds: nothing of this is loaded before
somebody asks for metrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from kbroker.apis.deprecated_requests import DeprecatedRequests
from kbroker.apis.quota_metrics import QuotaMetrics
from kbroker.controller.controller_metrics import ControllerMetrics
from kbroker.coordinator.ends_elsewhere import EndsElsewhere
from kbroker.coordinator.group_metrics import EndOf, GroupMetrics, TransactionMetrics
from kbroker.counters import CounterRegistry, Kind, Metric, MetricName, Row, Table
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from kbroker.network.connection_metrics import ConnectionMetrics
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.replica_metrics import ReplicaMetrics, gauges
from kbroker.server.background.loop_idle import LoopIdle
from kbroker.server.background.process_metrics import register_process
from kbroker.server.broker.broker_parts import BrokerParts


def register_measures(parts: BrokerParts, idle: LoopIdle, counters: CounterRegistry) -> None:
    """Register what is measured only when somebody looks."""
    hosted, services = parts.data.replicas.hosted, parts.services
    ReplicaMetrics(hosted, parts.cluster.fetchers, monotonic).register(counters)
    ControllerMetrics(parts.cluster.controller, parts.data.metadata).register(counters)
    ends = EndsElsewhere(
        services.groups.store, _ends_of(hosted), parts.data.metadata, parts.cluster.open_client
    )
    counters.prepare_with(ends.ask)
    GroupMetrics(services.groups.store, ends.end_of).register(counters)
    TransactionMetrics(services.transactions.store).register(counters)
    _register_directories(parts.data.logs, counters)
    _register_strays(parts.data.logs, counters)
    ConnectionMetrics(parts.socket_server, idle.began_s, monotonic).register(counters)
    QuotaMetrics(parts.quotas.in_force.limited.quotas, services.clock.monotonic_ms).register(
        counters
    )
    DeprecatedRequests(parts.requests.by_version, idle.began_s, monotonic).register(counters)
    parts.storage.zk.tree.register(counters)
    register_process(counters, idle)


def _ends_of(hosted: HostedPartitions) -> EndOf:
    def end_of(topic_partition: TopicPartition) -> int | None:
        partition = hosted.find(topic_partition)
        if partition is None:
            return None
        if partition.is_leader:
            return partition.high_watermark
        return partition.log_end_offset  # it hears of the leader's high watermark later

    return end_of


def _register_strays(logs: LogManager, counters: CounterRegistry) -> None:
    """Register what lies in data directories of topics that the cluster does not know: under the
    names of Confluent's server, as Kafka has none.
    """
    strays = logs.strays

    def found() -> Iterator[Row | None]:
        size_bytes = 0
        paths = strays.paths()
        for path in paths:
            size_bytes += strays.size_bytes(path)
            yield None
        yield (), (len(paths), size_bytes, len(strays.renamed))

    names = "Count", "TotalSize", "MisClassifiedCount"
    kind = "kafka.server", "ReplicaManager"
    counters.add_table(Table(gauges(*kind, tuple(f"StrayPartitions{n}" for n in names)), (), found))


def _register_directories(logs: LogManager, counters: CounterRegistry) -> None:
    def offline() -> Iterator[Row]:
        online = set(logs.online_directories)
        for directory in logs.directories():
            yield (directory.path,), (int(directory.path not in online),)

    name = MetricName("kafka.log", "LogManager", "LogDirectoryOffline")
    counters.add_table(Table((Metric(name, Kind.GAUGE),), ("logDirectory",), offline))
    counters.add(
        name._replace(name="OfflineLogDirectoryCount"),
        lambda: len(logs.directories()) - len(logs.online_directories),
    )
