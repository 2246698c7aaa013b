"""Fetches that wait until there are `min_bytes` to read, or their max wait is over.

Law: a fetch waits for bytes that are not there yet, never for bytes that merely did not fit: those
would not fit later either, and the consumer would stall. An append, a move of the high watermark or
last stable offset, a change of leadership or the deletion of a partition wakes it; deleted records
do not. Then only that partition is read again, and the answer is one fresh read of all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.replication.reads.fetch_params import FetchParams, FetchPartition
from kbroker.replication.reads.fetch_reader import UNKNOWN, FetchOutcome
from kbroker.replication.waiting.delayed_operation_purgatory import DelayedOperation

_NOWHERE: frozenset[int] = frozenset()
Read = Callable[[FetchParams, Sequence[FetchPartition]], FetchOutcome]


class DelayedFetch(DelayedOperation):
    """A waiting fetch of a few partitions; `first` is the outcome of its read on arrival."""

    __slots__ = (
        "_absent",
        "_asked",
        "_available",
        "_future",
        "_is_due",
        "_later",
        "_looked",
        "_params",
        "_places",
        "_read",
        "_total",
    )

    def __init__(
        self,
        params: FetchParams,
        asked: list[FetchPartition],
        first: FetchOutcome,
        read: Read,
        future: asyncio.Future[list[FetchResponse.PartitionData]],
        later: Callable[[DelayedFetch], None] | None = None,
    ) -> None:
        super().__init__()
        self._later = later
        self._is_due = False  # about to be completed
        self._params = params
        self._asked = asked
        self._read = read
        self._future = future
        self._absent = _places_of_unknown(first) if first.unknown else _NOWHERE
        self._available = first.available
        self._total = first.available_bytes
        self._places: dict[Hashable, int] | None = None  # of partitions, once it is woken
        self._looked: FetchOutcome | None = None  # of all that is asked, at this moment

    def add(self, asked: FetchPartition) -> None:
        """Wait for one more partition, which has just changed."""
        if self._places is not None:
            self._places[asked.topic_partition] = len(self._asked)
        self._asked.append(asked)
        self._available.append(0)

    def try_complete(self, key: Hashable) -> bool:
        if self._is_due:
            return False
        is_done = self._is_done(key)
        if not is_done or self._later is None:
            return is_done
        self._is_due = True
        self._looked = None
        self._later(self)
        return False

    def _is_done(self, key: Hashable) -> bool:
        self._looked = None
        place = self._place(key)
        if place is not None:
            outcome = self._read(self._params, (self._asked[place],))
            if len(self._asked) == 1:
                self._looked = outcome
            if outcome.must_answer:
                return True
            self._total += outcome.available_bytes - self._available[place]
            self._available[place] = outcome.available_bytes
        return self._total >= self._params.min_bytes

    def _place(self, key: Hashable) -> int | None:
        if len(self._asked) == 1:
            return 0 if self._asked[0].topic_partition == key else None
        if self._places is None:
            self._places = {asked.topic_partition: n for n, asked in enumerate(self._asked)}
        return self._places.get(key)

    def on_complete(self) -> None:
        """Read everything once more, so that all partitions are read at one moment."""
        if not self._future.done():
            outcome = self._looked or self._read(self._params, self._asked)
            if outcome.unknown:
                for place in _places_of_unknown(outcome) - self._absent:
                    # As in Kafka, which looks up the topics before it begins to wait.
                    outcome.partitions[place].aborted_transactions = None
            self._future.set_result(outcome.partitions)

    def on_expiration(self) -> None:
        self._looked = None
        self.on_complete()


class WideFetch(DelayedOperation):
    """A waiting fetch of thousands of partitions, which a session asks for with a few bytes. Its
    `future` is done once there is something to read, or nothing more to wait for.

    It is called at every change and knows which partitions are its own, so it costs no more than
    those of its partitions that are here, and a change no more than one read. The answer is read
    afterwards, in turns.
    """

    __slots__ = ("_available", "_future", "_params", "_partitions", "_read", "_total")

    def __init__(self, params: FetchParams, read: Read, future: asyncio.Future[Any]) -> None:
        super().__init__()
        self._params = params
        self._read = read
        self._future = future
        self._partitions: dict[Hashable, FetchPartition] = {}
        self._available: dict[Hashable, int] = {}  # of partitions that have some
        self._total = 0

    def __len__(self) -> int:
        return len(self._partitions)

    def was_read(self, partitions: Iterable[tuple[FetchPartition, int]]) -> None:
        """Wait for these partitions, which had that many bytes for this fetch a moment ago."""
        for asked, available in partitions:
            self._partitions[asked.topic_partition] = asked
            if available:
                self._note(asked.topic_partition, available)

    def try_complete(self, key: Hashable) -> bool:
        asked = self._partitions.get(key)
        if asked is None:
            return False
        outcome = self._read(self._params, (asked,))
        if outcome.must_answer:
            return True
        self._note(key, outcome.available_bytes)
        return self._total >= self._params.min_bytes

    def end(self) -> None:
        """End the wait: there is something to read, or nobody wants it any more."""
        if not self._future.done():
            self._future.set_result([])

    on_complete = on_expiration = end

    def _note(self, key: Hashable, available: int) -> None:
        self._total += available - self._available.get(key, 0)
        self._available[key] = available


def _places_of_unknown(outcome: FetchOutcome) -> frozenset[int]:
    """The places in an outcome of partitions that do not exist."""
    return frozenset(
        place for place, data in enumerate(outcome.partitions) if data.error_code in UNKNOWN
    )
