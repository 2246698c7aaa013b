"""Work that takes too long for the event loop: done on worker threads, piece by piece.

Law: what runs here is a function of its arguments and touches nothing that the event loop owns. It
says between its pieces, of about 1 MiB, how many bytes it has unpacked. Nobody knows beforehand how
much that will be in all, so work begins in the lane for little unless it says that it is more; one
that turns out to be more is given up and begins again in the next lane. In each lane one work at a
time is done, in the order in which it was asked for; the lanes have their pieces in turn. So work
waits for pieces of larger work and never for its end, what is done twice is a small part of it, and
no more than one work for each lane takes memory.
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

# Most of what honest clients send is one piece; whatever is more than the last takes what it takes.
LANE_PIECES: Final = (8, 128)


class LongWork:
    """Owned by the event loop."""

    def __init__(self) -> None:
        self._lanes = [_Lane(pieces * PIECE_BYTES) for pieces in (*LANE_PIECES, math.inf)]

    async def run(
        self, work: Callable[[Given, Pace], Made], given: Given, least_bytes: int = 0
    ) -> Made:
        """`work(given, pace)`, when its turn has come. `pace` is called with the number of bytes
        that were unpacked since the call before; it may wait, or end the work, which is then called
        once more. It will be `least_bytes` in all, or more, if it does not fail.
        """
        return await self.run_read(lambda: given, work, least_bytes)

    async def run_read(
        self,
        read: Callable[[], Given],
        work: Callable[[Given, Pace], Made],
        least_bytes: int = 0,
    ) -> Made:
        """`work(read(), pace)`, when its turn has come: `read` is called then, on the event loop,
        each time that the work begins.
        """
        for lane in self._lanes:
            if least_bytes <= lane.most_bytes:
                try:
                    return await lane.run(read, work)
                except _LaneLeftError:
                    continue
        raise AssertionError("the last lane takes everything")


class _Lane:
    """Does one work at a time, which unpacks `most_bytes` or is given up."""

    def __init__(self, most_bytes: float) -> None:
        self.most_bytes = most_bytes
        self._free = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "long-work")  # begins with the first work

    async def run(self, read: Callable[[], Given], work: Callable[[Given, Pace], Made]) -> Made:
        """As `LongWork.run_read`; _LaneLeftError for more than belongs here."""
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
    """The work does not belong into this lane, or nobody wants it any more."""


class ThreadTurn:
    """Shared by worker threads."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._waiting: deque[Lock] = deque()  # a held lock each
        self._is_taken = False
        self._collects_garbage = True  # whether it is collected while nobody has the turn

    @property
    def waiting(self) -> int:
        """How many threads wait for the turn."""
        return len(self._waiting)

    def take(self) -> None:
        """Wait for the turn."""
        gate = Lock()
        gate.acquire()
        with self._guard:
            self._waiting.append(gate)
            self._let_next()
        gate.acquire()
        self._collects_garbage = gc.isenabled()
        gc.disable()

    def give(self) -> None:
        """Let the next one have it."""
        if self._collects_garbage:
            gc.enable()
        with self._guard:
            self._is_taken = False
            self._let_next()

    def hand_on(self) -> None:
        """Let all who wait now have it before its present holder goes on."""
        if self._waiting:
            self.give()
            self.take()

    def _let_next(self) -> None:
        if self._waiting and not self._is_taken:
            self._is_taken = True
            self._waiting.popleft().release()


PROCESS_TURN: Final = ThreadTurn()


class _PacedWork:
    """One work on its thread."""

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
