"""The turn of the threads that compute: one at a time for all brokers of the process.

Law: threads that compute share one interpreter with the event loop, which is to wait for one of
them at most. Who has waited longest is next, so that a thread that hands the turn on between the
pieces of its work keeps others waiting for one piece. Nobody who has the turn waits for a
collection of garbage among the many objects that a piece makes: there is none meanwhile.
"""

from __future__ import annotations

import gc
from collections import deque
from threading import Lock


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
