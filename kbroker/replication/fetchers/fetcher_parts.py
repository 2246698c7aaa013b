"""The parts that copy logs. A broker alone makes these and nothing else of this package: fetchers
and movers are imported when there is something to copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbroker.clock import Clock
from kbroker.config.replication_config import ReplicationConfig
from kbroker.model import TopicPartition
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.replication_quota import ReplicationQuotas

if TYPE_CHECKING:
    from kbroker.replication.fetchers.fetch_states import FetchStates


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CopyParts:
    """The parts for copying logs, from leaders or between directories.

    `wake` is called with a partition whose end or high watermark has moved.
    """

    hosted: HostedPartitions
    wake: Callable[[TopicPartition], None]
    clock: Clock
    backoff_ms: Callable[[], int]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FetcherParts(CopyParts):
    """The parts that all fetchers of a broker share."""

    throttle: FollowerThrottle


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Follower:
    """The broker that fetches; `broker_epoch` returns the epoch of its present registration.
    `uses_topic_ids` if leaders know topics by id.
    """

    broker_id: int
    broker_epoch: Callable[[], int]
    config: ReplicationConfig
    uses_topic_ids: bool = True


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FollowerThrottle:
    """Holds all fetchers of a broker to `follower.replication.throttled.rate` (KIP-73).

    Law: a partition is held back before it is asked for, never in the middle of an answer, and only
    while it lacks committed records. All throttled bytes count, whichever partition they are for.
    Partitions held back are left out like delayed ones, so the others go on, and are tried again
    after a fetcher's usual pause.
    """

    quotas: ReplicationQuotas
    hosted: HostedPartitions
    clock: Clock
    backoff_ms: Callable[[], int]

    def hold_back(self, states: FetchStates, now_ms: float) -> None:
        """Leave out for a while, before a request, throttled partitions that lag."""
        quota = self.quotas.follower
        if quota.limit is None or not quota.is_exceeded(now_ms):
            return
        until_ms = now_ms + self.backoff_ms()
        for state in states.due(now_ms):
            if state.is_behind:
                partition = self.hosted.find(state.topic_partition)
                if partition is not None and self._is_throttled(partition):
                    states.delay(state, until_ms)

    def copied(self, partition: Partition, size: int) -> None:
        """Count bytes of a partition that have come."""
        quota = self.quotas.follower
        if quota.limit is not None and self._is_throttled(partition):
            quota.record(size, self.clock.monotonic_ms())

    def _is_throttled(self, partition: Partition) -> bool:
        return self.quotas.throttles_follower(*partition.topic_partition, partition.log.config)
