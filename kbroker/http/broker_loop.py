"""Questions from the HTTP thread to the loop of the broker, which stays free for its clients.

Law: the broker's loop is never kept longer than `SLICE_S` and the one step that is at work then.
What it has collected is formatted on the HTTP thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Generic, TypeVar

SLICE_S: Final = 0.001  # half of what is allowed: a step may take as long again

T = TypeVar("T")
Steps = Callable[[], Iterator[T | None]]
"""Makes an iterator of values, in small steps; a step that has no value yet yields None."""


class BrokerLoop:
    """The broker's loop as the HTTP thread sees it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def collect(self, steps: Steps[T], timeout_s: float) -> list[T]:
        """Run the steps on the broker's loop, and return their values. What the steps raise is
        raised here; TimeoutError if they are not done in time, or the loop is closed.
        """
        answer: asyncio.Future[list[T]] = asyncio.get_running_loop().create_future()
        work = _Slices(self._loop, steps, answer)
        try:
            self._loop.call_soon_threadsafe(work.begin)
        except RuntimeError:  # closed: the broker has stopped
            raise TimeoutError("the broker has stopped") from None
        try:
            return await asyncio.wait_for(answer, timeout_s)
        finally:
            work.is_given_up = True

    def call_soon(self, call: Callable[[], object]) -> None:
        """Have this called on the broker's loop, if there still is one; nobody waits for it."""
        with suppress(RuntimeError):  # closed: the broker has stopped
            self._loop.call_soon_threadsafe(call)


class _Slices(Generic[T]):
    """One run of steps. Owned by the broker's loop, but for `is_given_up`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        steps: Steps[T],
        answer: asyncio.Future[list[T]],
    ) -> None:
        self._loop = loop
        self._steps = steps
        self._answer = answer
        self._values: list[T] = []
        self._rest: Iterator[T | None] = iter(())
        self.is_given_up = False

    def begin(self) -> None:
        """Take the first slice."""
        if not self.is_given_up:
            self._rest = self._steps()
            self._go()

    def _go(self) -> None:
        if self.is_given_up:
            return
        try:
            is_done = self._slice()
        except Exception as error:  # a bug of the steps is the asker's to report
            self._settle(error)
            return
        if is_done:
            self._settle(None)
        else:
            self._loop.call_soon(self._go)

    def _slice(self) -> bool:
        end_s = time.monotonic() + SLICE_S
        for value in self._rest:
            if value is not None:
                self._values.append(value)
            if time.monotonic() >= end_s:
                return False
        return True

    def _settle(self, error: Exception | None) -> None:
        def settle() -> None:
            if self._answer.done():
                return
            if error is None:
                self._answer.set_result(self._values)
            else:
                self._answer.set_exception(error)

        with suppress(RuntimeError):  # the loop of the HTTP thread is closed
            self._answer.get_loop().call_soon_threadsafe(settle)
