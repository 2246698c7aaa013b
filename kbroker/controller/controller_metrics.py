"""Measures of the controller: who it is, and what it knows of all partitions while it is this
broker. On other brokers they are 0, so that sums over brokers are right.

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.controller.kafka_controller import KafkaController
from kbroker.controller.state_machines.controller_context import (
    PartitionState,
    Replica,
    ReplicaState,
)
from kbroker.counters import CounterRegistry, Kind, Metric, MetricName, Row, Table
from kbroker.model import TopicPartition
from kbroker.replication.metadata_cache import MetadataCache

_BREATH = 128  # partitions that are looked at in a step without a row
_NAMES = (
    "ActiveControllerCount",
    "OfflinePartitionsCount",
    "PreferredReplicaImbalanceCount",
    "GlobalTopicCount",
    "GlobalPartitionCount",
    "TopicsToDeleteCount",
    "TopicsIneligibleToDeleteCount",
    "ActiveBrokerCount",
    "FencedBrokerCount",
)
_DELETIONS = ("ReplicasToDeleteCount", "ReplicasIneligibleToDeleteCount")


class ControllerMetrics:
    """The measures of one broker's controller."""

    def __init__(self, controller: KafkaController, metadata: MetadataCache) -> None:
        self._controller = controller
        self._metadata = metadata

    def register(self, counters: CounterRegistry) -> None:
        """Register all of these under their names."""
        kind = "kafka.controller", "KafkaController"
        counters.add_table(Table(_gauges(*kind, *_NAMES), (), self._sums))
        counters.add_table(Table(_gauges(*kind, *_DELETIONS), (), self._deletions))
        events = MetricName("kafka.controller", "ControllerEventManager", "EventQueueSize")
        counters.add(events, self._controller.queue.__len__)
        current = MetricName("kafka.server", "MetadataLoader", "CurrentControllerId")
        counters.add(current, lambda: self._controller.controller_id)
        counters.add_table(Table(_gauges("kafka", "", "brokers"), (), self._brokers))
        info = _gauges("kafka", "", "broker_info")
        counters.add_table(Table(info, ("id", "address"), self._broker_info))

    def _sums(self) -> Iterator[Row | None]:
        controller = self._controller
        context = controller.context if controller.is_active else None
        if context is None:
            yield (), (0,) * len(_NAMES)
            return
        offline = imbalanced = 0
        for number, (partition, state) in enumerate(list(context.partition_states.items()), 1):
            if not context.is_queued_for_deletion(partition.topic):
                offline += state is PartitionState.OFFLINE
                known = context.leadership.get(partition)
                replicas = context.assignment(partition).replicas
                if known is not None and replicas:
                    imbalanced += known.leader_and_isr.leader != replicas[0]
            if number % _BREATH == 0:
                yield None
        topics = list(context.assignments.values())
        yield (
            (),
            (
                1,
                offline,
                imbalanced,
                len(topics),
                sum(map(len, topics)),
                len(context.topics_to_delete),
                len(context.topics_ineligible_for_deletion),
                len(context.live_brokers),
                0,  # there is no such state with a ZooKeeper
            ),
        )

    def _deletions(self) -> Iterator[Row | None]:
        controller = self._controller
        context = controller.context if controller.is_active else None
        left = ineligible = 0
        if context is not None:
            for topic in list(context.topics_to_delete):
                for partition, assignment in list(context.assignments.get(topic, {}).items()):
                    for broker_id in assignment.replicas:
                        replica = Replica(TopicPartition(topic, partition), broker_id)
                        state = context.replica_states.get(replica)
                        left += state is not ReplicaState.DELETION_SUCCESSFUL
                        ineligible += state is ReplicaState.DELETION_INELIGIBLE
                    yield None
        yield (), (left, ineligible)

    def _brokers(self) -> Iterator[Row]:
        if self._controller.is_active:
            yield (), (len(self._metadata.alive_brokers()),)

    def _broker_info(self) -> Iterator[Row]:
        if self._controller.is_active:
            for broker in self._metadata.alive_brokers():
                for end_point in broker.end_points[:1]:
                    yield (str(broker.broker_id), f"{end_point.host}:{end_point.port}"), (1,)


def _gauges(group: str, kind: str, *names: str) -> tuple[Metric, ...]:
    return tuple(Metric(MetricName(group, kind, name), Kind.GAUGE) for name in names)
