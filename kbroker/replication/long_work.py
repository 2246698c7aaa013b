"""Work that takes too long for the event loop: done on worker threads, piece by piece.

Law: what runs here is a function of its arguments and touches nothing that the event loop owns.
Between its pieces, of about 1 MiB, it reports how many bytes it has unpacked. Nobody knows the
total beforehand, so work begins in the lane for little, unless it says that it is more. Work that
turns out to be more is given up and begins again in the next lane. A lane does one job at a time,
in the order they were asked for, and the lanes take turns piece by piece. So work waits for pieces
of larger work but never for its end, little of it is done twice, and only one job per lane takes
memory.
"""

from __future__ import annotations

import asyncio
import gc
import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final, TypeVar

from kbroker.record.codecs.payload import PIECE_BYTES
from kbroker.record.record_stream import Pace

Given = TypeVar("Given")
Made = TypeVar("Made")

# Most of what honest clients send is one piece; anything above the last limit runs to its end.
LANE_PIECES: Final = (8, 128)


class LongWork:
    """The lanes of one broker. Owned by the event loop."""

    def __init__(self) -> None:
        self._lanes = [_Lane(pieces * PIECE_BYTES) for pieces in (*LANE_PIECES, math.inf)]

    async def run(
        self, work: Callable[[Given, Pace], Made], given: Given, least_bytes: int = 0
    ) -> Made:
        """Return `work(given, pace)` when its turn has come. `pace` is called with the number of
        bytes unpacked since its last call; it may wait, or end the work, which is then called once
        more. The work will unpack at least `least_bytes` if it does not fail.
        """
        return await self.run_read(lambda: given, work, least_bytes)

    async def run_read(
        self,
        read: Callable[[], Given],
        work: Callable[[Given, Pace], Made],
        least_bytes: int = 0,
    ) -> Made:
        """Return `work(read(), pace)`; `read` is called on the loop whenever the work begins."""
        for lane in self._lanes:
            if least_bytes <= lane.most_bytes:
                try:
                    return await lane.run(read, work)
                except _LaneLeftError:
                    continue
        raise AssertionError("the last lane takes everything")


class _Lane:
    """Does one job at a time, which is given up if it unpacks more than `most_bytes`."""

    def __init__(self, most_bytes: float) -> None:
        self.most_bytes = most_bytes
        self._free = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "long-work")  # begins with the first work

    async def run(self, read: Callable[[], Given], work: Callable[[Given, Pace], Made]) -> Made:
        """Do one job. Raises _LaneLeftError if it is too large for this lane."""
        paced = _PacedWork(self.most_bytes)
        async with self._free:
            given = read()
            doing = asyncio.get_running_loop().run_in_executor(self._thread, paced.run, work, given)
            try:
                return await doing
            except asyncio.CancelledError:
                paced.is_wanted = False  # what follows waits for the piece at hand
                raise


class _LaneLeftError(Exception):
    """The work is too large for this lane, or nobody wants it any more."""


class ThreadTurn:
    """The turn of the threads that compute: one at a time for all brokers of the process.

    Law: these threads share one interpreter with the event loop, which should wait for one of them
    at most. Whoever has waited longest is next, so a thread that hands on the turn between pieces
    keeps others waiting for one piece. A piece makes many objects, and whoever has the turn must
    not wait for a garbage collection among them: there is none meanwhile.
    """

    def __init__(self) -> None:
        self._guard = Lock()
        self._waiting: deque[Lock] = deque()  # a held lock each
        self._is_taken = False
        self._collects_garbage = True  # whether it is collected while nobody has the turn

    @property
    def waiting(self) -> int:
        """The number of threads that wait."""
        return len(self._waiting)

    def take(self) -> None:
        """Wait for the turn, and take it."""
        gate = Lock()
        gate.acquire()
        with self._guard:
            self._waiting.append(gate)
            self._let_next()
        gate.acquire()
        self._collects_garbage = gc.isenabled()
        gc.disable()

    def give(self) -> None:
        """Give the turn to the next thread."""
        if self._collects_garbage:
            gc.enable()
        with self._guard:
            self._is_taken = False
            self._let_next()

    def hand_on(self) -> None:
        """Give the turn to all threads that wait now, then take it again."""
        if self._waiting:
            self.give()
            self.take()

    def _let_next(self) -> None:
        if self._waiting and not self._is_taken:
            self._is_taken = True
            self._waiting.popleft().release()


PROCESS_TURN: Final = ThreadTurn()


class _PacedWork:
    """A job on the thread of its lane."""

    def __init__(self, most_bytes: float) -> None:
        self.is_wanted = True
        self._most_bytes = most_bytes
        self._done_bytes = 0
        self._turn_bytes = 0

    def run(self, work: Callable[[Given, Pace], Made], given: Given) -> Made:
        PROCESS_TURN.take()
        try:
            return work(given, self._pace)
        finally:
            PROCESS_TURN.give()

    def _pace(self, size_bytes: int) -> None:
        self._done_bytes += size_bytes
        self._turn_bytes += size_bytes
        if self._done_bytes > self._most_bytes or not self.is_wanted:
            raise _LaneLeftError
        if self._turn_bytes >= PIECE_BYTES:
            self._turn_bytes = 0
            PROCESS_TURN.hand_on()
