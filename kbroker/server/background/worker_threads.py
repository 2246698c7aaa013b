"""Threads that do work for the event loop.

Law: all work handed over has an outcome, or a client would wait forever: its future gets the result
or the exception, of whatever kind. If the system gives no thread, the existing threads do the work;
without any it is done at once, or refused if it may take its time. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class NoThreadError(OSError):
    """Work that needs a thread, and the system gives none."""


class WorkerThreads:
    """At most `limit` threads, each started once the others are busy; first come, first served."""

    def __init__(self, limit: int, name: str, *, may_run_here: bool = True) -> None:
        """`may_run_here`: the loop does the work itself if there is no thread at all."""
        self._may_run_here = may_run_here
        self._limit = limit
        self._name = name
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unsettled = 0

    def run(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        """Do `work` on a thread; the future belongs to the running loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()

        def settle(result: _T | None, error: BaseException | None) -> None:
            self._unsettled -= 1
            if future.done():  # nobody waits any more
                return
            if error is None:
                future.set_result(result)  # type: ignore[arg-type]
            else:
                future.set_exception(error)

        def carry_out() -> None:
            result, error = None, None
            try:
                result = work()
            except BaseException as failure:
                error = failure
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(settle, result, error)

        self._unsettled += 1
        if self._unsettled > len(self._threads) < self._limit:
            self._start_one()
        if self._threads:
            self._queue.put(carry_out)
        elif self._may_run_here:
            carry_out()
        else:
            settle(None, NoThreadError(f"there is no thread for {self._name}"))
        return future

    def stop(self) -> None:
        """Return once all work handed over is done; `run` may start threads again."""
        for thread in self.leave():
            thread.join()

    def leave(self) -> list[threading.Thread]:
        """Let the threads end after the work handed over, without waiting; returns them."""
        threads, self._threads = self._threads, []
        for _ in threads:
            self._queue.put(None)
        return threads

    def _start_one(self) -> None:
        thread = threading.Thread(
            target=_work,
            args=(self._queue,),
            name=f"{self._name}-{len(self._threads)}",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError as error:  # the system's limit
            _log.warning("Cannot start a thread for %s: %s", self._name, error)
        else:
            self._threads.append(thread)


def _work(queue: SimpleQueue[Callable[[], None] | None]) -> None:
    while (carry_out := queue.get()) is not None:
        carry_out()
