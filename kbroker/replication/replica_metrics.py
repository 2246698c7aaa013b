"""Measures of the partitions that a broker holds: their logs, their replicas, how far it follows
others.

They walk through partitions when somebody looks. A partition that comes or goes meanwhile is shown
once or not at all. Kafka's names; those of kafka_exporter are shown by the leader alone, so that
sums over brokers are right.

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kbroker.counters import CounterRegistry, Kind, Metric, MetricName, RecentRate, Row, Table
from kbroker.replication.fetchers.replica_fetcher_manager import ReplicaFetcherManager
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.partitions.partition import Partition

BREATH = 64  # partitions that are looked at in a step without a row
_PARTITION = ("topic", "partition")
_LOG = ("Size", "LogStartOffset", "LogEndOffset", "NumLogSegments")
_REPLICAS = (
    "UnderReplicated",
    "UnderMinIsr",
    "AtMinIsr",
    "ReplicasCount",
    "InSyncReplicasCount",
    "LastStableOffsetLag",
)
_ALL = (
    "PartitionCount",
    "LeaderCount",
    "OfflineReplicaCount",
    "UnderReplicatedPartitions",
    "UnderMinIsrPartitionCount",
    "AtMinIsrPartitionCount",
    "ReassigningPartitions",
    "ProducerIdCount",
)
_LED = (
    "topic_partition_current_offset",
    "topic_partition_oldest_offset",
    "topic_partition_leader",
    "topic_partition_replicas",
    "topic_partition_in_sync_replica",
    "topic_partition_leader_is_preferred",
    "topic_partition_under_replicated_partition",
)
_FETCHERS = ("MaxLag", "FailedPartitionsCount", "MinFetchRate")
_WINDOW_S = 60.0  # of rates, as in Kafka
_CLIENT = "Replica"  # whom Kafka names in the sums over its fetchers


class ReplicaMetrics:
    """The measures of one broker; `now_s` says what time it is, from any beginning."""

    def __init__(
        self,
        hosted: HostedPartitions,
        fetchers: ReplicaFetcherManager,
        now_s: Callable[[], float],
    ) -> None:
        self._hosted = hosted
        self._fetchers = fetchers
        self._now_s = now_s
        self._rates: dict[str, RecentRate] = {}

    def register(self, counters: CounterRegistry) -> None:
        """Register all of these under their names."""
        log = gauges("kafka.log", "Log", _LOG)
        counters.add_table(Table(log, _PARTITION, self._logs))
        replicas = gauges("kafka.cluster", "Partition", _REPLICAS)
        counters.add_table(Table(replicas, _PARTITION, self._partitions))
        counters.add_table(Table(gauges("kafka.server", "ReplicaManager", _ALL), (), self._sums))
        counters.add_table(Table(gauges("kafka", "", _LED), _PARTITION, self._led))
        topics = gauges("kafka", "", ("topic_partitions",))
        counters.add_table(Table(topics, ("topic",), self._topics))
        fetchers = gauges("kafka.server", "ReplicaFetcherManager", _FETCHERS)
        counters.add_table(Table(fetchers, ("clientId",), self._fetching))
        lags = gauges("kafka.server", "FetcherLagMetrics", ("ConsumerLag",))
        counters.add_table(Table(lags, ("clientId", *_PARTITION), self._lags))

    def _each(self) -> Iterator[Partition]:
        for topic_partition in self._hosted.names():
            partition = self._hosted.find(topic_partition)
            if partition is not None:
                yield partition

    def _logs(self) -> Iterator[Row]:
        for partition in self._each():
            log = partition.log
            yield (
                _tags(partition),
                (
                    log.segments.size_bytes,
                    log.log_start_offset,
                    log.log_end_offset,
                    len(log.segments),
                ),
            )

    def _partitions(self) -> Iterator[Row]:
        for partition in self._each():
            state, log = partition.state, partition.log
            replicas = in_sync = 0
            if state.is_leader:
                replicas, in_sync = len(state.replicas), len(state.isr)
            yield (
                _tags(partition),
                (
                    int(_is_under_replicated(partition)),
                    int(_is_under_min_isr(partition)),
                    int(_is_at_min_isr(partition)),
                    replicas,
                    in_sync,
                    log.high_watermark - log.last_stable_offset,
                ),
            )

    def _sums(self) -> Iterator[Row | None]:
        count = led = lacking = under = at = moving = producers = 0
        for partition in self._each():
            state = partition.state
            count += 1
            producers += len(partition.log.producer_state.producers)
            if state.is_leader:
                led += 1
                lacking += _is_under_replicated(partition)
                under += _is_under_min_isr(partition)
                at += _is_at_min_isr(partition)
                moving += bool(state.adding_replicas or state.removing_replicas)
            if count % BREATH == 0:
                yield None
        offline = self._hosted.offline_count
        yield (), (count + offline, led, offline, lacking, under, at, moving, producers)

    def _led(self) -> Iterator[Row | None]:
        for number, partition in enumerate(self._each(), 1):
            state, log = partition.state, partition.log
            if state.is_leader:
                yield (
                    _tags(partition),
                    (
                        log.high_watermark,
                        log.log_start_offset,
                        state.leader,
                        len(state.replicas),
                        len(state.isr),
                        int(state.replicas[:1] == (state.leader,)),
                        int(_is_under_replicated(partition)),
                    ),
                )
            elif number % BREATH == 0:
                yield None

    def _topics(self) -> Iterator[Row | None]:
        """Walk through the topics whose first partition this broker leads."""
        for number, topic_partition in enumerate(self._hosted.names(), 1):
            if topic_partition.partition == 0:
                partition = self._hosted.find(topic_partition)
                if partition is not None and partition.is_leader:
                    count = self._hosted.metadata.partition_count(topic_partition.topic)
                    yield (topic_partition.topic,), (count,)
            elif number % BREATH == 0:
                yield None

    def _fetching(self) -> Iterator[Row | None]:
        largest = failed = 0
        for number, state in enumerate(self._fetchers.states(), 1):
            largest = max(largest, state.lag)
            failed += bool(state.trouble)
            if number % BREATH == 0:
                yield None
        yield (_CLIENT,), (largest, failed, self._slowest())

    def _slowest(self) -> float:
        """The fetches a second of the fetcher that has fewest, 0 if there is none."""
        now_s = self._now_s()
        fetches = self._fetchers.fetches()
        known = self._rates
        self._rates = {
            name: known.get(name) or RecentRate(now_s, _WINDOW_S, count)
            for name, count in fetches.items()
        }
        rates = [rate.at(now_s, fetches[name]) for name, rate in self._rates.items()]
        return max(0.0, min(rates, default=0.0))  # a new fetcher has the name of an earlier one

    def _lags(self) -> Iterator[Row]:
        for state in self._fetchers.states():
            topic, index = state.topic_partition
            yield (_CLIENT, topic, str(index)), (state.lag,)


def gauges(group: str, kind: str, names: tuple[str, ...]) -> tuple[Metric, ...]:
    """The metrics of a table of gauges."""
    return tuple(Metric(MetricName(group, kind, name), Kind.GAUGE) for name in names)


def _tags(partition: Partition) -> tuple[str, str]:
    topic, index = partition.topic_partition
    return topic, str(index)


def _is_under_replicated(partition: Partition) -> bool:
    state = partition.state
    wanted = len(state.replicas) - len(state.adding_replicas)
    return state.is_leader and len(state.isr) < wanted


def _is_under_min_isr(partition: Partition) -> bool:
    state = partition.state
    return state.is_leader and state.is_under_min_isr(partition.log.config.min_insync_replicas)


def _is_at_min_isr(partition: Partition) -> bool:
    state = partition.state
    least = min(partition.log.config.min_insync_replicas, len(state.replicas))
    return state.is_leader and len(state.isr) == least
