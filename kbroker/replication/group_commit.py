"""fsync before an acks=all answer, where fewer than two replicas hold the records
(`kbroker.flush=acks-all`).

Law: owned by the event loop; only the fsync itself runs on a worker thread. While one is under way
for a partition, appends gather behind it and share the next one. A failed fsync is never repeated:
the kernel may have dropped the pages and would report success, so the partition goes offline
instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from kbroker.log.file_system import StorageError
from kbroker.log.log_state import PendingFlush
from kbroker.model import TopicPartition
from kbroker.replication.partition import Partition

# So many in-sync replicas do not lose their memory at the same time, as Kafka assumes.
SAFE_REPLICAS = 2

RunInThread = Callable[[Callable[[], None]], asyncio.Future[None]]


class GroupCommit:
    """Flushes partitions that acks=all producers wait for.

    `run_in_thread` starts a function on a worker thread; `on_flushed` and `on_failure` hear what
    came of it.
    """

    def __init__(
        self,
        run_in_thread: RunInThread,
        on_flushed: Callable[[TopicPartition], object],
        on_failure: Callable[[list[TopicPartition]], object],
    ) -> None:
        self._run_in_thread = run_in_thread
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self._flushing: set[TopicPartition] = set()
        self._wanted: dict[TopicPartition, int] = {}  # end offset that somebody waits for

    def is_durable(self, partition: Partition, end_offset: int) -> bool:
        """True when records below `end_offset` are on this disk, or on several brokers."""
        return (
            len(partition.state.isr) >= SAFE_REPLICAS or partition.log.recovery_point >= end_offset
        )

    def flush(self, partition: Partition, end_offset: int) -> None:
        """See that everything below `end_offset` gets to the disk."""
        topic_partition = partition.topic_partition
        self._wanted[topic_partition] = max(end_offset, self._wanted.get(topic_partition, 0))
        if topic_partition not in self._flushing:
            self._start(partition)

    def _start(self, partition: Partition) -> None:
        topic_partition = partition.topic_partition
        del self._wanted[topic_partition]
        pending = partition.log.begin_flush()
        if pending is not None:
            self._flushing.add(topic_partition)
            future = self._run_in_thread(pending.sync)
            future.add_done_callback(partial(self._done, partition, pending))

    def _done(
        self, partition: Partition, pending: PendingFlush, future: asyncio.Future[None]
    ) -> None:
        topic_partition = partition.topic_partition
        error = None if future.cancelled() else future.exception()
        if future.cancelled() or isinstance(error, StorageError):
            self._flushing.discard(topic_partition)
            self._wanted.pop(topic_partition, None)
            self._on_failure([topic_partition])
            return
        if error is not None:
            raise error
        partition.log.complete_flush(pending)
        # Those who are woken and still wait ask again, all of them before the next flush begins.
        self._on_flushed(topic_partition)
        self._flushing.discard(topic_partition)
        if self._wanted.get(topic_partition, 0) > partition.log.recovery_point:
            self._start(partition)
        else:
            self._wanted.pop(topic_partition, None)
