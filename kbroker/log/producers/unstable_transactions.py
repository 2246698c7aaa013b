"""The transactions of a log that hold back its last stable offset: open ones, and those that ended
and whose markers the high watermark has not passed yet.

Law: a log may have very many of them, so none is looked for among all others. They begin and end in
the order of the log, and what is asked for is the oldest: heaps, of which what has ended is taken
off once it has come to the top.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import NamedTuple

_SPARE = 64  # offsets of a heap that have ended, besides as many as there are others


class CompletedTxn(NamedTuple):
    """A transaction whose marker has been written at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class UnstableTransactions:
    """Owned by the producer state of a log. `first_offset` is that of the oldest of them, None when
    there is none.
    """

    __slots__ = ("_decided", "_open", "_producers", "_unreplicated", "first_offset")

    def __init__(self) -> None:
        self.first_offset: int | None = None
        self._open = _Offsets()
        self._producers: dict[int, int] = {}  # first offset of an open one -> producer id
        self._decided = _Offsets()
        self._unreplicated: deque[tuple[int, int]] = deque()  # last and first offset, by the last

    def begin(self, first_offset: int, producer_id: int) -> None:
        """Hold the last stable offset back for a transaction from now on."""
        self._open.add(first_offset)
        self._producers[first_offset] = producer_id
        self._look_again()

    def last_stable_offset_after(self, completed: CompletedTxn) -> int:
        """The last stable offset once `completed` is replicated: for the transaction index."""
        self._open.remove(completed.first_offset)
        oldest = self._open.oldest()
        self._open.add(completed.first_offset)
        return completed.last_offset + 1 if oldest is None else oldest

    def complete(self, completed: CompletedTxn) -> None:
        """An open one is decided; it waits for the high watermark."""
        owner = self._producers.pop(completed.first_offset, None)
        assert owner == completed.producer_id, (completed, owner)
        self._open.remove(completed.first_offset)
        self._decided.add(completed.first_offset)
        self._unreplicated.append((completed.last_offset, completed.first_offset))
        self._look_again()

    def replicated(self, end_offset: int) -> None:
        """Forget the decided ones whose marker is below `end_offset`."""
        waiting = self._unreplicated
        if not waiting or waiting[0][0] >= end_offset:
            return
        while waiting and waiting[0][0] < end_offset:
            self._decided.remove(waiting.popleft()[1])
        self._look_again()

    def _look_again(self) -> None:
        oldest_open, oldest_decided = self._open.oldest(), self._decided.oldest()
        if oldest_open is None or oldest_decided is None:
            self.first_offset = oldest_decided if oldest_open is None else oldest_open
        else:
            self.first_offset = min(oldest_open, oldest_decided)


class _Offsets:
    """A set that knows its smallest member."""

    __slots__ = ("_heap", "_members")

    def __init__(self) -> None:
        self._members: set[int] = set()
        self._heap: list[int] = []  # all members, and some that were removed

    def add(self, offset: int) -> None:
        self._members.add(offset)
        heappush(self._heap, offset)

    def remove(self, offset: int) -> None:
        self._members.remove(offset)
        if len(self._heap) > 2 * len(self._members) + _SPARE:
            self._heap = sorted(self._members)

    def oldest(self) -> int | None:
        heap, members = self._heap, self._members
        while heap and heap[0] not in members:
            heappop(heap)
        return heap[0] if heap else None
