"""Counters of topics: records and bytes that are written and read, requests, refusals.

All partitions of a topic that this broker holds count in one place, which those who append and read
have at hand: counting is an addition. Sums over all topics are made when somebody looks; they keep
what topics had that are gone.

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from kbroker.counters import Counter, CounterRegistry, Kind, Metric, MetricName, Row, Table

_METRICS = {
    "messages_in": "MessagesInPerSec",
    "bytes_in": "BytesInPerSec",
    "bytes_out": "BytesOutPerSec",
    "bytes_rejected": "BytesRejectedPerSec",
    "produce_requests": "TotalProduceRequestsPerSec",
    "failed_produce_requests": "FailedProduceRequestsPerSec",
    "fetch_requests": "TotalFetchRequestsPerSec",
    "failed_fetch_requests": "FailedFetchRequestsPerSec",
    "produce_conversions": "ProduceMessageConversionsPerSec",
    "fetch_conversions": "FetchMessageConversionsPerSec",
}
_values_of = attrgetter(*_METRICS)


class TopicCounters:
    """The counters of one topic. A request counts once for each partition, as in Kafka."""

    __slots__ = (*_METRICS, "partitions")

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0  # of records, as producers sent them
        self.bytes_out = 0  # of records, to consumers
        self.bytes_rejected = 0  # of batches that are larger than the topic takes
        self.produce_requests = 0
        self.failed_produce_requests = 0
        self.fetch_requests = 0
        self.failed_fetch_requests = 0
        self.produce_conversions = 0  # records of another format or codec than the topic's
        self.fetch_conversions = 0  # records for clients of old formats
        self.partitions = 0  # that are here

    def add(self, other: TopicCounters) -> None:
        """Add what another topic has counted."""
        for name in _METRICS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


NOT_HOSTED = TopicCounters()
"""The counters of a partition that is not here, which nobody looks at."""


class BrokerTopicStats:
    """The counters of all topics of which this broker holds a partition."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicCounters] = {}
        self._gone = TopicCounters()
        self.replication_bytes_in = Counter()
        self.replication_bytes_out = Counter()

    def begin(self, topic: str) -> TopicCounters:
        """The counters for one more partition of a topic."""
        counters = self._topics.get(topic)
        if counters is None:
            counters = self._topics[topic] = TopicCounters()
        counters.partitions += 1
        return counters

    def end(self, topic: str) -> None:
        """A partition is here no longer; with the last one goes the topic."""
        counters = self._topics[topic]
        counters.partitions -= 1
        if not counters.partitions:
            self._gone.add(self._topics.pop(topic))

    def of(self, topic: str) -> TopicCounters | None:
        """The counters of a topic, None if no partition of it is here."""
        return self._topics.get(topic)

    def all(self) -> Iterator[TopicCounters]:
        """Walk through the counters of all topics, and of those that are gone together."""
        yield self._gone
        for topic in list(self._topics):
            counters = self._topics.get(topic)
            if counters is not None:
                yield counters

    def register(self, counters: CounterRegistry) -> None:
        """Register all of these under their names."""
        metrics = tuple(Metric(_kafkas(name), Kind.COUNTER) for name in _METRICS.values())
        counters.add_table(Table(metrics, (), self._sums))
        counters.add_table(Table(metrics, ("topic",), self._by_topic))
        counters.add(_kafkas("ReplicationBytesInPerSec"), self.replication_bytes_in)
        counters.add(_kafkas("ReplicationBytesOutPerSec"), self.replication_bytes_out)

    def _sums(self) -> Iterator[Row]:
        total = TopicCounters()
        for topic in (self._gone, *self._topics.values()):
            total.add(topic)
        yield (), _values_of(total)

    def _by_topic(self) -> Iterator[Row]:
        for topic in list(self._topics):
            counters = self._topics.get(topic)
            if counters is not None:
                yield (topic,), _values_of(counters)


def _kafkas(name: str) -> MetricName:
    return MetricName("kafka.server", "BrokerTopicMetrics", name)
