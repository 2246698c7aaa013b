"""NewestBatches: the batches of a log that mention the newest times, by all their headers.

Law: a pass over a log of any size is made in slices, between which the log may change; what is kept
is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from typing import Final

from kbroker.log.partition.log import Log
from kbroker.log.partition.time_lookup import TimedBatch
from kbroker.turns import ENTRIES

_MOST: Final = 256  # batches of one pass
_SLICE_BYTES: Final = 16 * 1024 * 1024  # what was found at the start is checked on the way


class NewestBatches:
    """The newest batches after one that was looked into in vain, the newest first; of equal ones
    the first. Owned by the event loop.
    """

    def __init__(self, after: TimedBatch) -> None:
        self._after = _rank(after.timestamp, after.header.base_offset)
        self._found: list[tuple[int, int]] = []
        self._next_offset = 0
        self._end_offset: int | None = None  # of the log as it was when the pass began

    def look(self, log: Log) -> bool:
        """Look at some more headers; False: that was all. KafkaError(KAFKA_STORAGE_ERROR)."""
        if self._end_offset is None:
            self._end_offset = log.log_end_offset
        begun = self._next_offset
        with log.partition_directory.refusals():
            ranks = list(self._slice(log, begun))
        self._found = nlargest(_MOST, self._found + [rank for rank in ranks if rank < self._after])
        return begun < self._next_offset < self._end_offset

    def places(self) -> tuple[tuple[int, int], ...]:
        """(time, base offset) of each."""
        return tuple((timestamp, -offset) for timestamp, offset in self._found)

    def _slice(self, log: Log, offset: int) -> Iterator[tuple[int, int]]:
        count = size_bytes = 0
        for segment in log.segments.from_offset(offset):
            for _, header in segment.sound_headers(offset):
                yield _rank(header.max_timestamp, header.base_offset)
                self._next_offset = header.next_offset
                count += 1
                size_bytes += header.size_bytes
                if count == ENTRIES or size_bytes >= _SLICE_BYTES:
                    return


def _rank(timestamp: int, base_offset: int) -> tuple[int, int]:
    return timestamp, -base_offset
