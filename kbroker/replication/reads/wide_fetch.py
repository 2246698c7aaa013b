"""A waiting fetch of thousands of partitions, sent with a few bytes in a session.

Law: it costs no more while it waits than what is here of its partitions, and a change of one of
them no more than a look at that one. It hears of every change, and knows which are its own. The
answer is read afterwards, in turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from kbroker.replication.reads.fetch_params import FetchParams, FetchPartition
from kbroker.replication.reads.fetch_reader import FetchOutcome
from kbroker.replication.waiting.delayed_operation_purgatory import DelayedOperation

Read = Callable[[FetchParams, Sequence[FetchPartition]], FetchOutcome]


class WideFetch(DelayedOperation):
    """Its `future` is done when there is something to read, or nothing more to wait for."""

    __slots__ = ("_available", "_future", "_params", "_partitions", "_read", "_total")

    def __init__(self, params: FetchParams, read: Read, future: asyncio.Future[Any]) -> None:
        super().__init__()
        self._params = params
        self._read = read
        self._future = future
        self._partitions: dict[Hashable, FetchPartition] = {}
        self._available: dict[Hashable, int] = {}  # of those that have something
        self._total = 0

    def __len__(self) -> int:
        """How many partitions it waits for."""
        return len(self._partitions)

    def was_read(self, partitions: Iterable[tuple[FetchPartition, int]]) -> None:
        """Wait for these, which had so many bytes for it a moment ago."""
        for asked, available in partitions:
            self._partitions[asked.topic_partition] = asked
            if available:
                self._note(asked.topic_partition, available)

    def try_complete(self, key: Hashable) -> bool:
        """Look at the partition that changed, if it is one of its own."""
        asked = self._partitions.get(key)
        if asked is None:
            return False
        outcome = self._read(self._params, (asked,))
        if outcome.must_answer:
            return True
        self._note(key, outcome.available_bytes)
        return self._total >= self._params.min_bytes

    def end(self) -> None:
        """Nobody waits any more, or what was waited for is there."""
        if not self._future.done():
            self._future.set_result([])

    on_complete = on_expiration = end

    def _note(self, key: Hashable, available: int) -> None:
        self._total += available - self._available.get(key, 0)
        self._available[key] = available
