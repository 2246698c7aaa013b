"""A fetch that waits until there are `min_bytes` to read, or its max wait is over.

Law: it waits for bytes that are not there yet, never for bytes that only did not fit: those would
not fit later either, and the consumer would stall.

It is woken per partition: by an append, a move of the high watermark or of the last stable offset,
a change of leadership, or deletion (of the partition: records that are deleted end no wait). Then
only that partition is looked at again; the answer itself is one fresh read of all. Where the
partition is the only one, that look is the read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence

from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.replication.reads.fetch_params import FetchParams, FetchPartition
from kbroker.replication.reads.fetch_reader import UNKNOWN, FetchOutcome
from kbroker.replication.waiting.delayed_operation_purgatory import DelayedOperation

_NOWHERE: frozenset[int] = frozenset()
Read = Callable[[FetchParams, Sequence[FetchPartition]], FetchOutcome]


class DelayedFetch(DelayedOperation):
    """One waiting fetch. `first` is what the read at the time of the request gave."""

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
        self._is_due = False  # it will be completed in a moment
        self._params = params
        self._asked = asked
        self._read = read
        self._future = future
        self._absent = _places_of_unknown(first)
        self._available = first.available
        self._total = first.available_bytes
        self._places: dict[Hashable, int] | None = None  # where partitions are, once it is woken
        self._looked: FetchOutcome | None = None  # of all that is asked, and of this moment

    def add(self, asked: FetchPartition) -> None:
        """Wait for one partition more, to which something has happened."""
        if self._places is not None:
            self._places[asked.topic_partition] = len(self._asked)
        self._asked.append(asked)
        self._available.append(0)

    def try_complete(self, key: Hashable) -> bool:
        """Look at the partition that changed."""
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
        """Read everything once more, so that all partitions are of one moment."""
        if not self._future.done():
            outcome = self._looked or self._read(self._params, self._asked)
            if outcome.unknown:
                for place in _places_of_unknown(outcome) - self._absent:
                    # As from Kafka, which looks for the topics before it begins to wait.
                    outcome.partitions[place].aborted_transactions = None
            self._future.set_result(outcome.partitions)

    def on_expiration(self) -> None:
        """The max wait is over: what there is, if only high watermarks."""
        self._looked = None
        self.on_complete()


def _places_of_unknown(outcome: FetchOutcome) -> frozenset[int]:
    """Where in the outcome are partitions that are not there."""
    if not outcome.unknown:
        return _NOWHERE
    return frozenset(
        place for place, data in enumerate(outcome.partitions) if data.error_code in UNKNOWN
    )
