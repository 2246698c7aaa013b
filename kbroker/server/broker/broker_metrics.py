"""Registers the measures that walk through what a broker holds: nothing of this is loaded before
somebody asks for metrics.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.controller.controller_metrics import ControllerMetrics
from kbroker.coordinator.group_metrics import EndOf, GroupMetrics, TransactionMetrics
from kbroker.counters import CounterRegistry, Kind, Metric, MetricName, Row, Table
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.replica_metrics import ReplicaMetrics
from kbroker.server.background.loop_idle import LoopIdle
from kbroker.server.background.process_metrics import register_process
from kbroker.server.broker.broker_parts import BrokerParts


def register_measures(parts: BrokerParts, idle: LoopIdle, counters: CounterRegistry) -> None:
    """Register what is measured only when somebody looks."""
    hosted, services = parts.data.replicas.hosted, parts.services
    ReplicaMetrics(hosted, parts.cluster.fetchers).register(counters)
    ControllerMetrics(parts.cluster.controller, parts.data.metadata).register(counters)
    GroupMetrics(services.groups.store, _ends_of(hosted)).register(counters)
    TransactionMetrics(services.transactions.store).register(counters)
    _register_directories(parts.data.logs, counters)
    register_process(counters, idle)


def _ends_of(hosted: HostedPartitions) -> EndOf:
    def end_of(topic_partition: TopicPartition) -> int | None:
        partition = hosted.find(topic_partition)
        return None if partition is None else partition.high_watermark

    return end_of


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
