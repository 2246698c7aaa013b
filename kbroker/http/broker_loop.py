"""Questions from the HTTP thread to the loop of the broker, which stays free for its clients.

Law: no turn of the broker's loop is kept longer than `SLICE_S` and the one step that is at work
then, however many ask at once. What it has collected is formatted on the HTTP thread.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

SLICE_S: Final = 0.001  # half of what is allowed: a step may take as long again

T = TypeVar("T")
Steps = Callable[[], Iterator[T | None]]
"""Makes an iterator of values, in small steps; a step that has no value yet yields None."""


class BrokerLoop:
    """The broker's loop as the HTTP thread sees it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._slices = _Slices(loop)

    async def collect(self, steps: Steps[T], timeout_s: float) -> list[T]:
        """Run the steps on the broker's loop, and return their values. What the steps raise is
        raised here; TimeoutError if they are not done in time, or the loop is closed.
        """
        work = _Work(steps, asyncio.get_running_loop().create_future())
        try:
            self._loop.call_soon_threadsafe(self._slices.add, work)
        except RuntimeError:  # closed: the broker has stopped
            raise TimeoutError("the broker has stopped") from None
        try:
            return await asyncio.wait_for(work.answer, timeout_s)
        finally:
            work.is_given_up = True

    async def run(self, work: Callable[[], Awaitable[T]], timeout_s: float) -> T:
        """Await this on the broker's loop, and return what it returns. What it raises is raised
        here; TimeoutError if it is not done in time, or the loop is closed.
        """
        begun = _awaited(work)
        try:
            done = asyncio.run_coroutine_threadsafe(begun, self._loop)
        except RuntimeError:  # closed: the broker has stopped
            begun.close()
            raise TimeoutError("the broker has stopped") from None
        return await asyncio.wait_for(asyncio.wrap_future(done), timeout_s)

    def call_soon(self, call: Callable[[], object]) -> None:
        """Have this called on the broker's loop, if there still is one; nobody waits for it."""
        with suppress(RuntimeError):  # closed: the broker has stopped
            self._loop.call_soon_threadsafe(call)


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


class _Slices:
    """The slices of all that is collected, one in a turn of the loop however many ask. Owned by the
    broker's loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._works: deque[_Work[Any]] = deque()
        self._is_coming = False  # the next slice

    def add(self, work: _Work[Any]) -> None:
        """Collect this too, from the next turn on."""
        self._works.append(work)
        self._go_on()

    def _go_on(self) -> None:
        if self._works and not self._is_coming:
            self._is_coming = True
            self._loop.call_soon(self._take)

    def _take(self) -> None:
        self._is_coming = False
        end_s = time.monotonic() + SLICE_S
        while self._works:
            work = self._works.popleft()
            if not work.has_ended(end_s):
                self._works.append(work)  # behind those that wait
            if time.monotonic() >= end_s:
                break
        self._go_on()


class _Work(Generic[T]):
    """One run of steps. Owned by the broker's loop, but for `is_given_up`."""

    def __init__(self, steps: Steps[T], answer: asyncio.Future[list[T]]) -> None:
        self.answer = answer
        self.is_given_up = False
        self._steps = steps
        self._values: list[T] = []
        self._rest: Iterator[T | None] | None = None

    def has_ended(self, end_s: float) -> bool:
        """Take steps until a moment; whether there are none left, or nobody waits for them."""
        if self.is_given_up:
            self._rest = None
            return True
        try:
            if not self._is_done(end_s):
                return False
        except Exception as error:  # a bug of the steps is the asker's to report
            self._settle(error)
        else:
            self._settle(None)
        return True

    def _is_done(self, end_s: float) -> bool:
        if self._rest is None:
            self._rest = self._steps()
        for value in self._rest:
            if value is not None:
                self._values.append(value)
            if time.monotonic() >= end_s:
                return False
        return True

    def _settle(self, error: Exception | None) -> None:
        def settle() -> None:
            if self.answer.done():
                return
            if error is None:
                self.answer.set_result(self._values)
            else:
                self.answer.set_exception(error)

        with suppress(RuntimeError):  # the loop of the HTTP thread is closed
            self.answer.get_loop().call_soon_threadsafe(settle)
