"""A DeleteRecords that waits until every live replica has let go of the records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.replication.purgatory import DelayedOperation

INVALID_LOW_WATERMARK = -1


@dataclass(slots=True)
class DeleteRecordsResult:
    """How the deletion in one partition ended, and from where on all live replicas have records."""

    topic_partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    low_watermark: int = INVALID_LOW_WATERMARK
    required_offset: int = -1  # where the low watermark has to get to


# Brings a result up to date: True when nothing is left to wait for.
LowWatermarkCheck = Callable[[DeleteRecordsResult], bool]


class DelayedDeleteRecords(DelayedOperation):
    """Answers once the low watermark of each partition is where it should be, or can no longer get
    there; on expiry the rest gets REQUEST_TIMED_OUT.
    """

    __slots__ = ("_check", "_future", "_pending", "_results")

    def __init__(
        self,
        results: list[DeleteRecordsResult],
        pending: list[DeleteRecordsResult],
        check: LowWatermarkCheck,
        future: asyncio.Future[list[DeleteRecordsResult]],
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
        if result is not None and self._check(result):
            del self._pending[key]
        return not self._pending

    def on_complete(self) -> None:
        """Every partition has its outcome."""
        if not self._future.done():
            self._future.set_result(self._results)

    def on_expiration(self) -> None:
        """The request's timeout: the followers will let go of the records later."""
        for result in self._pending.values():
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._pending.clear()
        self.on_complete()
