"""A request that waits until each of its partitions has got as far as the request wants: a produce
with acks=all (Kafka's DelayedProduce), a deletion of records (DelayedDeleteRecords).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.replication.waiting.delayed_operation_purgatory import DelayedOperation


class PartitionResult(Protocol):
    """The result of a request in one partition."""

    topic_partition: TopicPartition
    error_code: ErrorCode


class Pending(Protocol):
    """A partition's result that is still open, with what it waits for."""

    @property
    def result(self) -> PartitionResult: ...


PendingT = TypeVar("PendingT", bound=Pending)


class DelayedProduce(DelayedOperation, Generic[PendingT]):
    """Answers with `results` once all of `pending` are settled. On expiry the error of the rest
    becomes REQUEST_TIMED_OUT, and their other fields stay.

    `is_settled` checks one of them and brings its result up to date: True if it has nothing more
    to wait for.
    """

    __slots__ = ("_future", "_is_settled", "_pending", "_results")

    def __init__(
        self,
        results: list[Any],
        pending: Iterable[PendingT],
        is_settled: Callable[[PendingT], bool],
        future: asyncio.Future[Any],
    ) -> None:
        super().__init__()
        self._results = results
        self._pending = {one.result.topic_partition: one for one in pending}
        self._is_settled = is_settled
        self._future = future

    def try_complete(self, key: Hashable) -> bool:
        assert isinstance(key, TopicPartition)
        pending = self._pending.get(key)
        if pending is not None and self._is_settled(pending):
            del self._pending[key]
        return not self._pending

    def on_complete(self) -> None:
        if not self._future.done():
            self._future.set_result(self._results)

    def on_expiration(self) -> None:
        """Answer that the rest timed out: it may still come about later, or not."""
        for pending in self._pending.values():
            pending.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._pending.clear()
        self.on_complete()
