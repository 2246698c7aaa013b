"""fsync before an answer: of acks=all if fewer than two replicas hold the records
(`kbroker.flush=acks-all`), of every produce (`always`), or once `flush.messages` are waiting.

Law: owned by the event loop; only the fsync itself runs on worker threads. While one is under way
for a partition, appends gather behind it and share the next one; partitions that wait for a thread
share it. A failed fsync is never repeated: the kernel may have dropped the pages and would report
success. The data directory goes offline instead, and nobody who waited is answered with success.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from kbroker.clock import Clock, Timer
from kbroker.log.disk.file_system import StorageError
from kbroker.log.disk.write_runner import outcome
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_state import PendingFlush
from kbroker.model import TopicPartition
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.partitions.produce_result import REQUIRED_ACKS_ALL

# This many in-sync replicas do not all lose their memory at once, as Kafka assumes.
SAFE_REPLICAS = 2
# The file system joins the syncs of several threads into one commit of its journal, but each thread
# takes the interpreter from the event loop for a moment.
MAX_THREADS = 8
_AGAIN_AFTER_MS = 50

RunInThread = Callable[[Callable[[], None]], asyncio.Future[None]]

_log = logging.getLogger(__name__)


class FlushPolicy(StrEnum):
    """`kbroker.flush`: which answers wait for the disk."""

    NEVER = "never"
    ACKS_ALL = "acks-all"
    ALWAYS = "always"

    @property
    def waiting_acks(self) -> frozenset[int]:
        """The acks whose answers may have to wait, whatever the topic's settings."""
        return _WAITING_ACKS[self]


_WAITING_ACKS = {
    FlushPolicy.NEVER: frozenset[int](),
    FlushPolicy.ACKS_ALL: frozenset({REQUIRED_ACKS_ALL}),
    FlushPolicy.ALWAYS: frozenset({REQUIRED_ACKS_ALL, 0, 1}),
}


class _Flush(NamedTuple):
    partition: Partition
    log: Log
    pending: PendingFlush


class _Share:
    """The flushes of one thread, one after the other; `errors` has the outcome of each."""

    def __init__(self, flushes: Sequence[_Flush]) -> None:
        self.flushes = flushes
        self.errors: list[StorageError | None] = []

    def sync(self) -> None:
        for flush in self.flushes:
            self.errors.append(outcome(flush.pending.sync))


class SharedFlush:
    """Flushes partitions that producers wait for.

    `run_in_thread` starts a function on a worker thread; `on_flushed` is called with each partition
    that was flushed, `on_failure` with those whose fsync failed.
    """

    def __init__(
        self,
        policy: FlushPolicy,
        run_in_thread: RunInThread,
        clock: Clock,
        timer: Timer,
        on_flushed: Callable[[TopicPartition], object],
        on_failure: Callable[[list[TopicPartition]], object],
    ) -> None:
        self._policy = policy
        self.waiting_acks = policy.waiting_acks
        self._run_in_thread = run_in_thread
        self._clock = clock
        self._timer = timer
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self._running = 0  # threads at work
        self._flushing: set[TopicPartition] = set()
        self._wanted: dict[TopicPartition, tuple[Partition, int]] = {}  # (…, end offset)

    def must_flush(self, partition: Partition, end_offset: int, required_acks: int) -> bool:
        """Whether an answer for records below `end_offset` has to wait for this disk."""
        log = partition.log
        if log.offsets.recovery_point >= end_offset:
            return False
        if end_offset >= log.offsets.flush_due_offset or self._policy is FlushPolicy.ALWAYS:
            return True
        return required_acks in self.waiting_acks and partition.state.fewest_in_sync < SAFE_REPLICAS

    def flush(self, partition: Partition, end_offset: int) -> None:
        """Have everything below `end_offset` brought to the disk."""
        topic_partition = partition.topic_partition
        known = self._wanted.get(topic_partition)
        if known is None or known[1] < end_offset:
            self._wanted[topic_partition] = (partition, end_offset)
        if topic_partition not in self._flushing and self._running < MAX_THREADS:
            self._start_waiting()

    def _start_waiting(self) -> None:
        """Give each idle thread a share of what is wanted and not under way."""
        waiting = [tp for tp in self._wanted if tp not in self._flushing]
        size = -(-len(waiting) // MAX_THREADS)
        for start in range(0, min(size * (MAX_THREADS - self._running), len(waiting)), size or 1):
            self._start(waiting[start : start + size])

    def _start(self, partitions: Sequence[TopicPartition]) -> None:
        flushes = []
        for topic_partition in partitions:
            partition, _ = self._wanted.pop(topic_partition)
            log = partition.log
            pending = log.flushes.begin()
            if pending is not None:
                flushes.append(_Flush(partition, log, pending))
                self._flushing.add(topic_partition)
            else:  # a periodic flush was faster, and wakes nobody; not now: this may be an append
                self._timer.call_later(0, partial(self._wake, topic_partition))
        if flushes:
            share = _Share(flushes)
            self._running += 1
            self._run_in_thread(share.sync).add_done_callback(partial(self._done, share))

    def _wake(self, topic_partition: TopicPartition) -> None:
        self._on_flushed(topic_partition)

    def _done(self, share: _Share, future: asyncio.Future[None]) -> None:
        self._running -= 1
        fault = None if future.cancelled() else future.exception()
        if fault is not None:
            _log.error("A flush ended unexpectedly", exc_info=fault)
        missing = len(share.flushes) - len(share.errors)
        unknown = StorageError("", "fsync", 0, "the flush ended unexpectedly")
        for flush, error in zip(share.flushes, [*share.errors, *[unknown] * missing], strict=True):
            try:
                self._settle(flush, unknown if fault is not None and error is None else error)
            except Exception:  # the others of this share wait as well
                _log.exception(
                    "%s was flushed, but those who wait for it were not told", flush.partition
                )
        if self._wanted:
            self._start_waiting()

    def _settle(self, flush: _Flush, error: StorageError | None) -> None:
        partition, log = flush.partition, flush.log
        topic_partition = partition.topic_partition
        if error is None:
            log.flushes.complete(flush.pending, self._clock.now_ms())
        elif log.successor is not None:
            pass  # its files are elsewhere now: whoever still waits asks for a flush of those
        elif log.flushes.failed(flush.pending, error):
            self._timer.call_later(_AGAIN_AFTER_MS, partial(self._again, flush))
            return
        else:
            self._wanted.pop(topic_partition, None)
            self._flushing.discard(topic_partition)
            if not log.is_deleted:  # else a new topic of that name would be refused
                self._on_failure([topic_partition])
            return
        # Those who are woken and still have to wait ask again before the next flush begins.
        try:
            self._on_flushed(topic_partition)
        finally:
            self._flushing.discard(topic_partition)
        wanted = self._wanted.get(topic_partition)
        if wanted is not None and wanted[1] <= partition.log.offsets.recovery_point:
            del self._wanted[topic_partition]

    def _again(self, flush: _Flush) -> None:
        self._flushing.discard(flush.partition.topic_partition)
        self.flush(flush.partition, flush.pending.end_offset)
