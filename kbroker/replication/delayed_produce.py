"""A produce with acks=all that waits until the high watermark has passed its records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.replication.produce_result import PartitionProduceResult
from kbroker.replication.purgatory import DelayedOperation

# Says for (partition, end offset): None while the replicas lack something, else how it ended.
CommitCheck = Callable[[TopicPartition, int], ErrorCode | None]


class DelayedProduce(DelayedOperation):
    """Answers once each partition has been committed or has failed; on expiry the rest gets
    REQUEST_TIMED_OUT.

    `pending` are those of `results` that still wait; each keeps the offsets its append was given,
    also when it fails.
    """

    __slots__ = ("_check", "_future", "_pending", "_results")

    def __init__(
        self,
        results: list[PartitionProduceResult],
        pending: list[PartitionProduceResult],
        check: CommitCheck,
        future: asyncio.Future[list[PartitionProduceResult]],
    ) -> None:
        super().__init__()
        self._results = results
        self._pending = {result.topic_partition: result for result in pending}
        self._check = check
        self._future = future

    def try_complete(self, key: Hashable) -> bool:
        """Look at the partition that changed."""
        assert isinstance(key, TopicPartition)
        result = self._pending.get(key)
        if result is not None:
            outcome = self._check(key, result.last_offset + 1)
            if outcome is not None:
                result.error_code = outcome
                del self._pending[key]
        return not self._pending

    def on_complete(self) -> None:
        """Every partition has its outcome."""
        if not self._future.done():
            self._future.set_result(self._results)

    def on_expiration(self) -> None:
        """The request's timeout: records may or may not be replicated later."""
        for result in self._pending.values():
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._pending.clear()
        self.on_complete()
