"""The threads of a simulated broker that sync its logs: they take time, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from tests.fakes.running.virtual_loop import VirtualLoop


class SimulatedFlushes:
    """Fulfils WorkerThreads. What a sync catches is what was written when it began, or any time
    until it ended: the device decides.
    """

    def __init__(self, loop: VirtualLoop, random: Random, slow: float, slow_s: float) -> None:
        """`slow` of the syncs take up to `slow_s`."""
        self._loop = loop
        self._random = random
        self._slow = slow
        self._slow_s = slow_s
        self._under_way: dict[asyncio.Future[None], Callable[[], None]] = {}

    def run(self, work: Callable[[], None]) -> asyncio.Future[None]:
        """Do `work` on a thread."""
        future: asyncio.Future[None] = self._loop.create_future()
        delay_s = self._random.random() * 0.005
        if self._random.random() < self._slow:
            delay_s = self._random.random() * self._slow_s
        if self._random.random() < 0.5:
            work()
            self._under_way[future] = lambda: None
        else:
            self._under_way[future] = work
        self._loop.call_later(delay_s, self._finish, future)
        return future

    def stop(self) -> None:
        """Return when the syncs under way are done."""
        for future in list(self._under_way):
            self._finish(future)

    def _finish(self, future: asyncio.Future[None]) -> None:
        work = self._under_way.pop(future, None)
        if work is None:
            return
        try:
            work()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(None)
