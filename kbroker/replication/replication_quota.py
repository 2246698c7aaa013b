"""Replication throttles: how fast a broker copies the partitions that topics name (KIP-73), and all
partitions that move between its directories (KIP-113).

Pure. Law: without a rate nothing is counted, and only `limit` is read. The rate is measured like
Kafka's SimpleRate: the bytes of the last windows over the time since the oldest of them began, but
at least one window. So a burst is paid for by waiting until the rate over all windows is within the
limit again.

Owned by the event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from kbroker.config.kafka_config import dynamic_only_key
from kbroker.config.quota_config import QuotaConfig
from kbroker.config.topic_config import TopicConfig

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
MOVING_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
ALL_REPLICAS = ("*",)

_NO_LIMIT = 2**63 - 1  # no limit to Kafka


@dataclass(slots=True, eq=False, repr=False)
class _Sample:
    """The bytes counted in one window."""

    start_ms: float
    last_event_ms: float
    size: int = 0


class ByteRate:
    """Bytes per second over the last `samples` windows of `window_ms`, and a window before them
    that reaches into them.
    """

    __slots__ = ("_expire_ms", "_samples", "_total", "_window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._window_ms = window_ms
        self._expire_ms = samples * window_ms
        self._samples: deque[_Sample] = deque()
        self._total = 0

    def record(self, size: int, now_ms: float) -> None:
        """Count bytes that are copied now."""
        self._purge(now_ms)
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._window_ms:
            samples.append(_Sample(now_ms, now_ms))
        current = samples[-1]
        current.size += size
        current.last_event_ms = now_ms
        self._total += size

    def bytes_per_s(self, now_ms: float) -> float:
        """The rate at this moment."""
        self._purge(now_ms)
        if not self._samples:
            return 0.0
        elapsed_ms = max(now_ms - self._samples[0].start_ms, self._window_ms)
        return self._total * 1000 / elapsed_ms

    def _purge(self, now_ms: float) -> None:
        samples = self._samples
        while samples and now_ms - samples[0].last_event_ms >= self._expire_ms:
            self._total -= samples.popleft().size


class ReplicationQuota:
    """The throttle of one way of copying: as a leader, as a follower, or between directories."""

    __slots__ = ("_broker_id", "_known", "_rate", "limit")

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._rate = ByteRate(11, 1000)  # as with Kafka's defaults
        # The partitions that each topic's list names here. Lists stay the same objects until they
        # change.
        self._known: dict[str, tuple[tuple[str, ...], frozenset[int]]] = {}
        self.limit: int | None = None
        """Bytes per second; None for no throttle."""

    def set_windows(self, count: int, window_s: int) -> None:
        """Measure over that many windows of this length, and forget what was counted."""
        self._rate = ByteRate(count, window_s * 1000)

    def set_limit(self, limit: int | None) -> None:
        """Change the rate, in bytes per second; None, or the largest long, ends the throttle."""
        self.limit = None if limit is None or limit >= _NO_LIMIT else limit
        if self.limit is None:
            self._known.clear()

    def names(self, topic: str, partition: int, replicas: tuple[str, ...]) -> bool:
        """Whether the topic's list throttles this broker's replica of a partition."""
        if not replicas or replicas == ALL_REPLICAS:
            return bool(replicas)
        known = self._known.get(topic)
        if known is None or known[0] is not replicas:
            known = self._known[topic] = replicas, self._partitions_in(replicas)
        return partition in known[1]

    def is_exceeded(self, now_ms: float) -> bool:
        """Whether the rate is above the limit."""
        limit = self.limit
        return limit is not None and self._rate.bytes_per_s(now_ms) > limit

    def record(self, size: int, now_ms: float) -> None:
        self._rate.record(size, now_ms)

    def bytes_per_s(self, now_ms: float) -> float:
        return self._rate.bytes_per_s(now_ms)

    def _partitions_in(self, replicas: Iterable[str]) -> frozenset[int]:
        pairs = (pair.split(":") for pair in replicas if pair)
        return frozenset(int(index) for index, broker in pairs if int(broker) == self._broker_id)


class ReplicationQuotas:
    """The throttles of one broker."""

    __slots__ = ("follower", "leader", "moving")

    def __init__(self, broker_id: int) -> None:
        self.leader = ReplicationQuota(broker_id)
        self.follower = ReplicationQuota(broker_id)
        self.moving = ReplicationQuota(broker_id)  # between directories

    def set_windows(self, config: QuotaConfig) -> None:
        """Measure over the windows that the settings give."""
        for quota in (self.leader, self.follower):
            quota.set_windows(
                config.replication_quota_window_num, config.replication_quota_window_size_seconds
            )
        self.moving.set_windows(
            config.alter_log_dirs_replication_quota_window_num,
            config.alter_log_dirs_replication_quota_window_size_seconds,
        )

    def configure(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> None:
        """Take the rates from the dynamic settings of the cluster and of this broker.

        Raises ConfigError, and changes nothing, if a rate cannot be used.
        """
        names = (LEADER_RATE, FOLLOWER_RATE, MOVING_RATE)
        limits = [_rate(name, broker.get(name, cluster.get(name))) for name in names]
        for quota, limit in zip((self.leader, self.follower, self.moving), limits, strict=True):
            quota.set_limit(limit)

    def throttles_leader(self, topic: str, partition: int, config: TopicConfig) -> bool:
        return self.leader.names(topic, partition, config.leader_replication_throttled_replicas)

    def throttles_follower(self, topic: str, partition: int, config: TopicConfig) -> bool:
        return self.follower.names(topic, partition, config.follower_replication_throttled_replicas)


def _rate(name: str, text: str | None) -> int | None:
    key = dynamic_only_key(name)
    assert key is not None
    return None if text is None else cast("int", key.parse(text))
