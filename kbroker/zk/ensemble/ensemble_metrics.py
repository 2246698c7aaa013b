"""Measures of a broker's way to an ensemble: how long its requests take, how often it connects and
loses a connection or a session. Kafka's names.

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.counters import (
    Counter,
    CounterRegistry,
    Histogram,
    Kind,
    Metric,
    MetricName,
    Row,
    Table,
)

_BOXES = 64
_LISTENER = "SessionExpireListener"


class EnsembleMetrics:
    """The counters of one broker's sessions on an ensemble."""

    __slots__ = (
        "_times",
        "_total_ns",
        "auth_failures",
        "connects",
        "disconnects",
        "expires",
        "sasl_logins",
    )

    def __init__(self) -> None:
        self.connects = Counter()
        self.disconnects = Counter()
        self.expires = Counter()
        self.auth_failures = Counter()
        self.sasl_logins = Counter()
        self._times = [0] * _BOXES  # of answers, by the number of bits of their nanoseconds
        self._total_ns = 0

    def answered(self, took_s: float) -> None:
        """Count an answer that took so long."""
        took_ns = int(took_s * 1e9)
        self._times[took_ns.bit_length()] += 1
        self._total_ns += took_ns

    def register(self, counters: CounterRegistry) -> None:
        """Register all of these under their names."""
        latency = MetricName("kafka.server", "ZooKeeperClientMetrics", "ZooKeeperRequestLatencyMs")
        counters.add_table(Table((Metric(latency, Kind.HISTOGRAM),), (), self._latency))
        for name, counter in (
            ("ZooKeeperSyncConnectsPerSec", self.connects),
            ("ZooKeeperDisconnectsPerSec", self.disconnects),
            ("ZooKeeperExpiresPerSec", self.expires),
            ("ZooKeeperAuthFailuresPerSec", self.auth_failures),
            ("ZooKeeperSaslAuthenticationsPerSec", self.sasl_logins),
            ("ZooKeeperReadOnlyConnectsPerSec", Counter()),  # it takes no server that only reads
        ):
            counters.add(MetricName("kafka.server", _LISTENER, name), counter)

    def _latency(self) -> Iterator[Row]:
        yield (), (Histogram(list(self._times), self._total_ns),)
