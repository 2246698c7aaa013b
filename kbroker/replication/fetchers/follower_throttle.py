"""Holds a broker's fetchers to `follower.replication.throttled.rate` (KIP-73).

Law: a partition is held back before it is asked for, never in the middle of an answer; one that
has all that is committed never is. All throttled bytes count, whoever they are copied for. Those
held back are left out like delayed ones, so the others go on, and are looked at again after a
fetcher's usual pause.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbroker.clock import Clock
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.replication_quota import ReplicationQuotas

if TYPE_CHECKING:
    from kbroker.replication.fetchers.fetch_states import FetchStates


class FollowerThrottle:
    """Shared by all fetchers of a broker, as the rate is."""

    def __init__(
        self,
        quotas: ReplicationQuotas,
        hosted: HostedPartitions,
        clock: Clock,
        backoff_ms: Callable[[], int],
    ) -> None:
        self._quotas = quotas
        self._hosted = hosted
        self._clock = clock
        self._backoff_ms = backoff_ms

    def hold_back(self, states: FetchStates, now_ms: float) -> None:
        """Leave out for a while, before a request, those that are throttled and lag."""
        quota = self._quotas.follower
        if quota.limit is None or not quota.is_exceeded(now_ms):
            return
        until_ms = now_ms + self._backoff_ms()
        for state in states.due(now_ms):
            if state.is_behind:
                partition = self._hosted.find(state.topic_partition)
                if partition is not None and self._is_throttled(partition):
                    states.delay(state, until_ms)

    def copied(self, partition: Partition, size: int) -> None:
        """Bytes of the partition have come."""
        quota = self._quotas.follower
        if quota.limit is not None and self._is_throttled(partition):
            quota.record(size, self._clock.monotonic_ms())

    def _is_throttled(self, partition: Partition) -> bool:
        return self._quotas.throttles_follower(*partition.topic_partition, partition.log.config)
