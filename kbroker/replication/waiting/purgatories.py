"""The requests that wait for something to happen to a partition, and what wakes them.

Owned by the event loop. Each kind has a purgatory, as in Kafka, because each has its own limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kbroker.clock import Clock, Timer
from kbroker.config.replication_config import ReplicationConfig
from kbroker.counters import CounterRegistry, MetricName
from kbroker.model import TopicPartition
from kbroker.replication.waiting.delayed_operation_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
)
from kbroker.replication.waiting.delayed_produce import DelayedProduce

CreateFuture = Callable[[], "asyncio.Future[Any]"]


def running_loop_future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


class Purgatories:
    """The requests that wait at the partitions of one broker. A simulated loop passes its own
    `create_future`, because requests come to it while it is not running.
    """

    def __init__(
        self, clock: Clock, timer: Timer, config: ReplicationConfig, create_future: CreateFuture
    ) -> None:
        self.create_future = create_future
        self._timer = timer
        self.fetches: DelayedOperationPurgatory[DelayedOperation] = DelayedOperationPurgatory(
            clock, timer, purge_interval=config.fetch_purgatory_purge_interval_requests
        )
        self.produces: DelayedOperationPurgatory[DelayedProduce[Any]] = DelayedOperationPurgatory(
            clock, timer, purge_interval=config.producer_purgatory_purge_interval_requests
        )
        self.deletions: DelayedOperationPurgatory[DelayedProduce[Any]] = DelayedOperationPurgatory(
            clock, timer, purge_interval=config.delete_records_purgatory_purge_interval_requests
        )

    def register(self, counters: CounterRegistry) -> None:
        """Register how many operations wait, and how often they are watched: Kafka's "size"."""
        purgatory = partial(MetricName, "kafka.server", "DelayedOperationPurgatory")
        kinds: tuple[tuple[str, DelayedOperationPurgatory[Any]], ...] = (
            ("Fetch", self.fetches),
            ("Produce", self.produces),
            ("DeleteRecords", self.deletions),
        )
        for kind, waiting in kinds:
            tags = (("delayedOperation", kind),)
            counters.add(purgatory("NumDelayedOperations", tags), waiting.__len__)
            counters.add(purgatory("PurgatorySize", tags), waiting.watched)

    def complete_soon(self, operation: DelayedOperation) -> None:
        """Complete a fetch at the next turn of the event loop."""
        self._timer.call_later(0, partial(self.fetches.complete, operation))

    def wake(self, topic_partition: TopicPartition) -> None:
        """Check what waits: an end, high watermark, last stable offset or flushed end has moved."""
        self.fetches.check_and_complete(topic_partition)
        self.produces.check_and_complete(topic_partition)

    def wake_all(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Check what waits at partitions whose role has changed: nobody may wait in vain."""
        for topic_partition in topic_partitions:
            self.wake(topic_partition)
            self.deletions.check_and_complete(topic_partition)

    def shutdown(self) -> None:
        """Answer every request that waits."""
        self.fetches.shutdown()
        self.produces.shutdown()
        self.deletions.shutdown()
