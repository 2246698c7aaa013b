"""Parts for all that copy logs. A broker alone makes these and nothing else of this package:
fetchers and movers are imported when there is something to copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from kbroker.clock import Clock
from kbroker.config.replication_config import ReplicationConfig
from kbroker.model import TopicPartition
from kbroker.replication.fetchers.follower_throttle import FollowerThrottle
from kbroker.replication.partitions.hosted_partitions import HostedPartitions


class Wake(Protocol):
    """Tells those who wait at a partition that it has changed (Purgatories)."""

    def wake(self, topic_partition: TopicPartition) -> None:
        """The partition's end or high watermark has moved."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CopyParts:
    """What all share that copy logs in a broker, from leaders or between directories."""

    hosted: HostedPartitions
    waiting: Wake
    clock: Clock
    backoff_ms: Callable[[], int]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FetcherParts(CopyParts):
    """What all fetchers of a broker share."""

    throttle: FollowerThrottle


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Follower:
    """Who fetches; `broker_epoch` gives the epoch of its present registration. `uses_topic_ids`:
    leaders know topics by them.
    """

    broker_id: int
    broker_epoch: Callable[[], int]
    config: ReplicationConfig
    uses_topic_ids: bool = True
