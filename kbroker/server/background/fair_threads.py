"""Threads whose askers take turns: who asks a thousand times delays another by a turn.

Law: what is given up before its turn is kept no longer, also if no thread ever gets free.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any

from kbroker.fair_queue import FairQueue
from kbroker.server.background.worker_threads import WorkerThreads

_Waiting = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class FairThreads:
    """At most `limit` threads."""

    def __init__(self, limit: int, name: str) -> None:
        self._threads = WorkerThreads(limit, name, may_run_here=False)
        self._free = limit
        self._waiting: FairQueue[_Waiting] = FairQueue()

    def run(self, asker: str, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Do `work` on a thread when it is the turn of `asker`; the future belongs to the loop."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        waiting = work, future

        def forget(done: asyncio.Future[Any]) -> None:
            if done.cancelled():
                self._waiting.remove(asker, waiting)

        self._waiting.put(asker, waiting)
        future.add_done_callback(forget)
        self._begin()
        return future

    def leave(self) -> list[Thread]:
        """Let the threads end after the work handed over, without waiting; returns them."""
        return self._threads.leave()

    def _begin(self) -> None:
        while self._free and self._waiting:
            work, future = self._waiting.take()
            if future.done():  # given up before its turn
                continue
            self._free -= 1
            self._threads.run(work).add_done_callback(partial(self._settle, future))

    def _settle(self, future: asyncio.Future[Any], done: asyncio.Future[Any]) -> None:
        self._free += 1
        error = done.exception()
        if future.done():  # nobody waits any more
            pass
        elif error is None:
            future.set_result(done.result())
        else:
            future.set_exception(error)
        self._begin()
